"""Stable-Baselines3's PPO through SuperSuit: one policy, shared by all agents of four games.

python examples/interop/stable_baselines3_ppo.py
"""

import numpy as np
import supersuit
from stable_baselines3 import PPO
from stable_baselines3.common.utils import set_random_seed

from srl_envs import make

AGENTS, ROUNDS, STEPS = 4, 8, 8192

game = make("coop_compete_v0", num_agents=AGENTS, max_cycles=ROUNDS)
# Every agent of every copy becomes one environment of a vector, as PPO knows them.
envs = supersuit.concat_vec_envs_v1(
    supersuit.pettingzoo_env_to_vec_env_v1(game), 4, num_cpus=0, base_class="stable_baselines3"
)


def earned(act, rounds=64):
    """Mean reward per agent and round where `act` turns observations into actions."""
    observations, rewards = envs.reset(), []
    for _ in range(rounds):
        observations, reward, _, _ = envs.step(act(observations))
        rewards.append(reward)
    return np.mean(rewards)


set_random_seed(0)  # PPO(seed=...) would seed the vector too, and SuperSuit's has no seed()
uniform = np.random.default_rng(0)
before = earned(lambda seen: uniform.integers(2, size=len(seen)))
model = PPO(
    "MlpPolicy", envs, n_steps=64, batch_size=256, learning_rate=1e-3, gamma=0.9, device="cpu"
)
model.learn(STEPS)
after = earned(lambda seen: model.predict(seen)[0])
print(f"uniform play earned {before:.4f} a round, PPO after {STEPS} steps {after:.4f}")
print(f"to expect: {game.baselines()}")
