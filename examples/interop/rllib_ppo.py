"""Train RLlib's PPO (new API stack) through ParallelPettingZooEnv, with one module for all agents.

python examples/interop/rllib_ppo.py
"""

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.tune.registry import register_env

from srl_envs import make

AGENTS, ROUNDS, ITERATIONS = 4, 8, 10
STEPS = 512  # environment steps per iteration

register_env(
    "coop_compete", lambda options: ParallelPettingZooEnv(make("coop_compete_v0", **options))
)
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
config = (
    PPOConfig()
    .environment("coop_compete", env_config={"num_agents": AGENTS, "max_cycles": ROUNDS})
    .env_runners(num_env_runners=0)  # in this process
    .multi_agent(policies={"shared"}, policy_mapping_fn=lambda agent, episode, **_: "shared")
    .training(
        train_batch_size_per_learner=STEPS, minibatch_size=256, num_epochs=10, lr=1e-2, gamma=0.9
    )
    .debugging(seed=0)
)
algorithm = config.build_algo()
returns = []
for _ in range(ITERATIONS):
    result = algorithm.train()["env_runners"]
    # RLlib's return is the sum over agents.
    returns.append(result["episode_return_mean"] / (AGENTS * ROUNDS))
algorithm.stop()
ray.shutdown()
before, after = returns[0], returns[-1]
print(
    f"reward per agent and step: {before:.4f} in the first iteration, "
    f"{after:.4f} after {ITERATIONS * STEPS} steps"
)
print(f"reference values: {make('coop_compete_v0', num_agents=AGENTS).baselines()}")
