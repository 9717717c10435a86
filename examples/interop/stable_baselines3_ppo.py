"""Train Stable-Baselines3's PPO through SuperSuit, with one policy for all agents of four copies.

python examples/interop/stable_baselines3_ppo.py
"""

import numpy as np
import supersuit
from stable_baselines3 import PPO
from stable_baselines3.common.utils import set_random_seed

from srl_envs import make

AGENTS, ROUNDS, STEPS = 4, 8, 8192

game = make("coop_compete_v0", num_agents=AGENTS, max_cycles=ROUNDS)
# Each agent of each copy becomes one environment of the vector environment.
envs = supersuit.concat_vec_envs_v1(
    supersuit.pettingzoo_env_to_vec_env_v1(game), 4, num_cpus=0, base_class="stable_baselines3"
)


def mean_reward(act, steps=64):
    """Return the mean reward per agent and step of `act`, from observations to actions."""
    observations, rewards = envs.reset(), []
    for _ in range(steps):
        observations, reward, _, _ = envs.step(act(observations))
        rewards.append(reward)
    return np.mean(rewards)


set_random_seed(0)  # PPO(seed=...) calls envs.seed(), which SuperSuit lacks
uniform = np.random.default_rng(0)
before = mean_reward(lambda observations: uniform.integers(2, size=len(observations)))
model = PPO(
    "MlpPolicy", envs, n_steps=64, batch_size=256, learning_rate=1e-3, gamma=0.9, device="cpu"
)
model.learn(STEPS)
after = mean_reward(lambda observations: model.predict(observations)[0])
print(f"reward per agent and step: {before:.4f} for uniform play, {after:.4f} after {STEPS} steps")
print(f"reference values: {game.baselines()}")
