"""Train TorchRL's PPO through PettingZooWrapper, with shared parameters and action masks.

python examples/interop/torchrl_ppo.py
"""

import torch
from tensordict.nn import TensorDictModule
from torchrl.collectors import Collector
from torchrl.envs.libs.pettingzoo import PettingZooWrapper
from torchrl.modules import MaskedCategorical, MultiAgentMLP, ProbabilisticActor
from torchrl.objectives import ClipPPOLoss, ValueEstimators

from srl_envs import make

AGENTS, ROUNDS, STEPS = 4, 8, 4096  # one step of all agents is one frame

torch.manual_seed(0)
game = make("coop_compete_v0", num_agents=AGENTS, max_cycles=ROUNDS)
env = PettingZooWrapper(game, seed=0)
[group] = env.group_map  # TorchRL groups agents whose names differ only in their number
width = env.observation_spec[group, "observation"].shape[-1]


def network(outputs):
    """Return a network with shared parameters that receives each agent's observation."""
    return MultiAgentMLP(
        width, outputs, n_agents=AGENTS, centralized=False, share_params=True, depth=1, num_cells=32
    )


actor = ProbabilisticActor(
    TensorDictModule(network(2), [(group, "observation")], [(group, "logits")]),
    spec=env.action_spec,
    # TorchRL moves the action mask from the infos to the observation's group.
    in_keys={"logits": (group, "logits"), "mask": (group, "action_mask")},
    out_keys=[env.action_key],
    distribution_class=MaskedCategorical,
    return_log_prob=True,
)
critic = TensorDictModule(network(1), [(group, "observation")], [(group, "state_value")])
loss = ClipPPOLoss(actor, critic, entropy_coeff=0.0)
loss.set_keys(
    reward=env.reward_key,
    action=env.action_key,
    value=(group, "state_value"),
    done=(group, "done"),
    terminated=(group, "terminated"),
)
loss.make_value_estimator(ValueEstimators.GAE, gamma=0.9, lmbda=0.95)
optimizer = torch.optim.Adam(loss.parameters(), lr=1e-2)

before = env.rollout(64 * ROUNDS, break_when_any_done=False)["next", group, "reward"].mean()
for batch in Collector(env, actor, frames_per_batch=256, total_frames=STEPS):
    with torch.no_grad():
        loss.value_estimator(
            batch,
            params=loss.critic_network_params,
            target_params=loss.target_critic_network_params,
        )
    for _ in range(4):
        losses = loss(batch)
        optimizer.zero_grad()
        (losses["loss_objective"] + losses["loss_critic"]).backward()
        optimizer.step()
    after = batch["next", group, "reward"].mean()
print(f"reward per agent and step: {before:.4f} for uniform play, {after:.4f} after {STEPS} steps")
print(f"reference values: {game.baselines()}")
