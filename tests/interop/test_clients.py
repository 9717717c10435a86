"""Wrappers and algorithms of other frameworks, used as their own tutorials use them."""

import gymnasium
import numpy as np
import pettingzoo
import pytest
from gymnasium import wrappers

from srl_envs import make, registry, scenarios

pytestmark = [pytest.mark.interop, pytest.mark.filterwarnings("ignore")]
SINGLE = ("srl/Maze-v0", "srl/HiddenBandit-v1")


def needed(module):
    return pytest.importorskip(module, reason=f"{module} is not installed: make test-interop")


@pytest.mark.parametrize("name", ["coop_compete_v1", "maze_race_v0", "social_negotiation_v0"])
@pytest.mark.parametrize("wrapper", ["pad_observations_v0", "frame_stack_v1", "black_death_v3"])
def test_wrappers_of_supersuit(name, wrapper):
    wrapped = getattr(needed("supersuit"), wrapper)(make(name, max_cycles=6))
    needed("pettingzoo.test").parallel_api_test(wrapped, num_cycles=20)


@pytest.mark.parametrize("processes", [0, 2])
def test_copies_of_supersuit_play_different_episodes(processes):
    supersuit = needed("supersuit")
    vector = supersuit.pettingzoo_env_to_vec_env_v1(make("coop_compete_v0", num_agents=2))
    vector = supersuit.concat_vec_envs_v1(vector, 4, num_cpus=processes, base_class="gymnasium")
    vector.reset()
    seen, *_ = vector.step(np.zeros(8, int))
    vector.close()
    assert len(np.unique(seen, axis=0)) == 8  # of the noise of rewards


@pytest.mark.parametrize("name", ["coop_compete_v1", "team_battle_v1", "maze_race_v0"])
def test_ppo_of_stable_baselines3_on_agents_as_a_vector(name):
    supersuit, algorithms = needed("supersuit"), needed("stable_baselines3")
    vector = supersuit.pettingzoo_env_to_vec_env_v1(make(name, max_cycles=8))
    vector = supersuit.concat_vec_envs_v1(vector, 2, num_cpus=0, base_class="stable_baselines3")
    learns(algorithms.PPO("MlpPolicy", vector, n_steps=32, batch_size=64, device="cpu"))


@pytest.mark.parametrize("mode", ["vector", "dict"])
@pytest.mark.parametrize("identity", SINGLE)
def test_ppo_of_stable_baselines3_on_gymnasium(identity, mode):
    algorithms = needed("stable_baselines3")
    env = gymnasium.make(f"srl_envs:{identity}", obs_mode=mode)
    needed("stable_baselines3.common.env_checker").check_env(env)
    policy = "MlpPolicy" if mode == "vector" else "MultiInputPolicy"
    learns(algorithms.PPO(policy, env, n_steps=128, seed=0, device="cpu"))


def learns(model):
    before = model.policy.parameters_to_vector()
    model.learn(256)
    after = model.policy.parameters_to_vector()
    assert np.isfinite(after).all() and (before != after).any()


class ActionMasks(pettingzoo.utils.BaseWrapper, gymnasium.Env):
    """SB3ActionMaskWrapper of PettingZoo's tutorial, with a list of played actions' masks."""

    legal = ()

    def reset(self, seed=None, options=None):
        super().reset(seed, options)
        self.observation_space = super().observation_space(self.possible_agents[0])["observation"]
        self.action_space = super().action_space(self.possible_agents[0])
        return self.observe(self.agent_selection), {}

    def step(self, action):
        agent = self.agent_selection
        self.legal = (*self.legal, self.action_mask()[action])
        super().step(action)
        return (
            self.observe(self.agent_selection),
            self._cumulative_rewards[agent],
            self.terminations[agent],
            self.truncations[agent],
            self.infos[agent],
        )

    def observe(self, agent):
        return super().observe(agent)["observation"]

    def action_mask(self):
        return super().observe(self.agent_selection)["action_mask"]


@pytest.mark.parametrize("name", ["social_negotiation_v0", "social_trading_v0"])
def test_maskable_ppo_plays_legal_actions_only(name):
    contrib, masker = needed("sb3_contrib"), needed("sb3_contrib.common.wrappers").ActionMasker
    env = ActionMasks(registry.as_module(name).env(obs_mode="dict"))
    env.reset(seed=0)
    masked = masker(env, ActionMasks.action_mask)
    learns(contrib.MaskablePPO("MlpPolicy", masked, n_steps=128, device="cpu"))
    assert len(env.legal) == 256 and all(env.legal)


def test_maskable_ppo_finds_the_masks_of_scenarios():
    contrib = needed("sb3_contrib")
    masking = needed("sb3_contrib.common.maskable.utils").is_masking_supported
    env = scenarios.scenario("social_negotiation_v0.conceder").gym_env()
    model = contrib.MaskablePPO("MlpPolicy", env, n_steps=128, device="cpu")
    assert masking(model.get_env())
    learns(model)


@pytest.mark.parametrize("identity", SINGLE)
def test_wrappers_of_gymnasium(identity):
    env = gymnasium.make(f"srl_envs:{identity}", obs_mode="dict")
    size = sum(np.prod(space.shape) for space in env.observation_space.values())
    env = wrappers.TimeLimit(wrappers.FlattenObservation(env), 5)
    env = wrappers.RecordEpisodeStatistics(env)
    for seed in range(3):
        seen, info = env.reset(seed=seed)
        assert seen.shape == (size,) and env.observation_space.contains(seen)
        rewards, over = [], False
        while not over:
            action = int(np.flatnonzero(info["action_mask"])[-1])
            _, reward, terminated, truncated, info = env.step(action)
            rewards.append(reward)
            over = terminated or truncated
        assert info["episode"]["l"] == len(rewards) <= 5
        assert info["episode"]["r"] == pytest.approx(sum(rewards))
