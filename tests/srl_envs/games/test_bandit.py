import numpy as np
import pytest
from pytest import approx

from srl_envs.games.bandit import OBSERVATION_FIELDS, parallel_env


def certain(**parameters):
    """Left always wins; right never does before the switch and always after it."""
    env = parallel_env(**{"arm0_prob": 1, "arm1_prob_start": 0, "arm1_prob_after": 1, **parameters})
    env.reset(seed=0)
    return env


def pull(env, *arms):
    return env.step(dict(zip(env.agents, arms, strict=True)))


@pytest.mark.parametrize("switch", [0, 1, 3])
def test_right_arm_changes_after_switch_pull_rounds(switch):
    env = certain(switch_pull=switch, max_cycles=5)
    rewards, phases = [], []
    for _ in range(5):
        _, reward, _, _, infos = pull(env, 1)
        rewards.append(reward["agent_0"])
        phases.append(infos["agent_0"]["phase"])
    assert rewards == [0.0] * switch + [1.0] * (5 - switch)
    assert phases == ["before"] * switch + ["after"] * (5 - switch)
    env.reset()  # every episode begins before the switch
    assert pull(env, 1)[1]["agent_0"] == (1.0 if switch == 0 else 0.0)


def test_win_rates_match_and_agents_are_independent():
    env = parallel_env(num_agents=4, switch_pull=3000, max_cycles=6000)
    env.reset(seed=1)
    won = np.array([list(pull(env, 0, 0, 1, 1)[1].values()) for _ in range(6000)])
    four_sigma = 4 * 0.5 / 3000**0.5
    assert won[:3000].mean(axis=0) == approx([0.5] * 4, abs=four_sigma)
    assert won[3000:].mean(axis=0) == approx([0.5, 0.5, 0.7, 0.7], abs=four_sigma)
    assert set(won.flat) == {0.0, 1.0}
    assert abs(np.corrcoef(won.T) - np.eye(4)).max() < 0.06


def test_observation_of_several():
    env = certain(num_agents=3, switch_pull=2, max_cycles=4)
    observations, *_ = pull(env, 0, 1, 1)  # agent_0 wins, the others do not
    seen = dict(zip(OBSERVATION_FIELDS, observations["agent_1"].tolist(), strict=True))
    assert seen == approx(
        {
            "first_round": 0,
            "own_right": 1,
            "last_reward": 0,
            "others_right": 0.5,
            "others_reward": 0.5,
            "time": 0.25,
            "switched": 0,
        }
    )
    view = env.text_view
    assert view.describe("agent_1", observations["agent_1"]) == (
        "Round 2 of 4. You pulled right and won 0. Of the 2 others 1 pulled right; 1 won. "
        "The right arm has not changed."
    )
    assert "changes after 2 rounds" in view.rules("agent_1")
    observations, *_ = pull(env, 0, 0, 0)  # the next pull comes after the switch
    assert observations["agent_1"][OBSERVATION_FIELDS.index("switched")] == 1


def test_a_hidden_switch():
    env = certain(observe_switch=False, switch_pull=0)
    observations, *_ = pull(env, 0)
    assert observations["agent_0"][OBSERVATION_FIELDS.index("switched")] == -1
    assert "changed" not in env.text_view.describe("agent_0", observations["agent_0"])
    assert "0 rounds" not in env.text_view.rules("agent_0")


def test_baselines():
    # 50 pulls of (.5, .5), then 150 of (.5, .7): .5 + .75 * .1 at random, .5 + .75 * .2 at best
    env = parallel_env(max_cycles=200)
    known = env.baselines()
    assert list(known) == ["uniform", "constant", "scripted", "optimum"]
    assert list(known.values()) == approx([0.575, 0.65, env.scripted_value(), 0.65])
    # Win-stay, lose-shift pulls right first with probability .5, wins there, or comes there.
    fades = certain(arm0_prob=0, arm1_prob_start=1, arm1_prob_after=0, switch_pull=1, max_cycles=2)
    assert fades.scripted_value() == 0.25
    assert set(parallel_env(max_cycles=50).baselines().values()) == {0.5}
