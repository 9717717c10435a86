"""RLlib's PPO (its new API stack) on ParallelPettingZooEnv: one module, shared by all agents.

python examples/interop/rllib_ppo.py
"""

import ray
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv
from ray.tune.registry import register_env

from srl_envs import make

AGENTS, ROUNDS, ITERATIONS = 4, 8, 10
STEPS = 512  # rounds in one iteration

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
    returns.append(result["episode_return_mean"] / (AGENTS * ROUNDS))  # summed over agents
algorithm.stop()
ray.shutdown()
before, after = returns[0], returns[-1]
print(
    f"at first play earned {before:.4f} a round, PPO after {ITERATIONS * STEPS} steps {after:.4f}"
)
print(f"to expect: {make('coop_compete_v0', num_agents=AGENTS).baselines()}")
