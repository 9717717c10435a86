"""A reward function of one's own around any environment."""

import numpy as np
import pytest
from pettingzoo.test import parallel_api_test, parallel_seed_test

from srl_envs import registry
from srl_envs.env_checker import check_environment
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.text import TextAction, TextEnv
from srl_envs.wrappers import CustomRewards


def length_of(model_output, context):
    return len(model_output) if isinstance(model_output, str) else float(model_output)


@pytest.mark.parametrize("name", ["team_battle_v0", "maze_v0", "math_v0"])
def test_custom_rewards_keep_the_contract(name):
    def make():
        return CustomRewards(registry.make(name, max_cycles=8), lambda output, context: 1.5)

    check_environment(make, options={"episode": 100})
    parallel_api_test(make(), num_cycles=8)
    parallel_seed_test(make)


def test_reward_function_receives_answer_and_context():
    told = []

    def judge(model_output, context):
        told.append((model_output, context))
        return len(model_output)

    env = CustomRewards(TextEnv(registry.make("coop_compete_pair_v0", noise_std=0.0)), judge)
    observations, _ = env.reset(seed=0)
    _, rewards, *_, infos = env.step({"agent_0": "cooperate", "agent_1": "who knows"})
    assert rewards == {"agent_0": 9.0, "agent_1": 9.0}
    assert infos["agent_0"]["environment_reward"] == pytest.approx(0.6)
    assert infos["agent_1"]["environment_reward"] == pytest.approx(0.6 - 0.1)  # not read
    (output, context), (_, other) = told
    assert output == "cooperate" and context["agent"] == "agent_0" and other["agent"] == "agent_1"
    assert context["environment"] == "coop_compete_v0" and context["round"] == 0
    assert context["observation"] == observations["agent_0"]
    assert context["reward"] == infos["agent_0"]["environment_reward"]
    assert context["info"]["cooperation_ratio"] == 0.5
    observations, *_ = env.step({"agent_0": "cooperate", "agent_1": "cooperate"})
    assert told[-1][1]["round"] == 1
    env.step({"agent_0": "cooperate", "agent_1": "cooperate"})
    assert told[-1][1]["observation"] == observations["agent_1"]
    env.reset()
    env.step({"agent_0": "cooperate", "agent_1": "cooperate"})
    assert told[-1][1]["round"] == 0


def test_text_actions_are_rewarded_by_their_text():
    env = CustomRewards(registry.make("coop_compete_pair_v0"), length_of)
    env.reset(seed=0)
    _, rewards, *_ = env.step({"agent_0": TextAction(1, "I cooperate"), "agent_1": 1})
    assert rewards == {"agent_0": 11.0, "agent_1": 1.0}


@pytest.mark.parametrize("reward", [None, "1", float("nan"), np.array([1.0])])
def test_rewards_must_be_finite_numbers(reward):
    env = CustomRewards(registry.make("coop_compete_v0"), lambda output, context: reward)
    env.reset(seed=0)
    with pytest.raises(EnvError, match="reward_function must return a finite number"):
        env.step(dict.fromkeys(env.agents, 1))


def test_environment_and_function_are_checked():
    with pytest.raises(EnvConfigError, match="env must be a PettingZoo ParallelEnv, got 5"):
        CustomRewards(5, None)
    with pytest.raises(EnvConfigError, match="reward_function must be a function"):
        CustomRewards(registry.make("coop_compete_v0"), 5)
    env = CustomRewards(registry.make("coop_compete_v0"))
    with pytest.raises(EnvConfigError, match="got 'length'"):
        env.reward_function = "length"
