import numpy as np
import pytest
from pytest import approx

from srl_envs.errors import EnvConfigError
from srl_envs.games.staged import OBSERVATION_FIELDS, StagedRules, parallel_env


def staged(**parameters):
    """An environment without noise, its episode begun."""
    env = parallel_env(**{"noise_std": 0.0, **parameters})
    env.reset(seed=0)
    return env


def play(env, chosen):
    return env.step(dict(zip(env.agents, chosen, strict=True)))


def mean(env, chosen):
    return np.mean(list(play(env, chosen)[1].values()))


def test_the_documented_check_values():
    # Base .7 * 1.3 = .91. All cooperate: .91 + .125 = 1.035, the two adversaries .05 less.
    assert mean(staged(), [1] * 8) == approx(1.0225)
    # All compete: .91 - .125, and an adversary's bonus of 0.1 * 0
    assert mean(staged(), [0] * 8) == approx(0.785)


@pytest.mark.parametrize(
    ("chosen", "rewards"),
    [
        # c = .75 > .7. Adversaries compete: .91 + .0625 + .075 - .05; the rest cooperate: .9725.
        ([0, 0, 1, 1, 1, 1, 1, 1], [0.9975] * 2 + [0.9725] * 6),
        # c = .25 < .3. Adversaries cooperate: .91 - .0625 - .0125 - .05; the rest compete: .8475.
        ([1, 1, 0, 0, 0, 0, 0, 0], [0.785] * 2 + [0.8475] * 6),
        # c = .5, no penalty applies: .91; adversaries +.05 competing, -.025 cooperating.
        ([0, 1, 1, 1, 1, 0, 0, 0], [0.96, 0.885] + [0.91] * 6),
    ],
)
def test_rounds_by_hand(chosen, rewards):
    env = staged()
    _, got, _, _, infos = play(env, chosen)
    assert list(got.values()) == approx(rewards)
    assert env.rules.expected_rewards(chosen) == approx(rewards)
    assert infos["agent_5"]["cooperation_ratio"] == sum(chosen) / 8
    assert infos["agent_5"]["phase"] == "divergence"
    assert infos["agent_5"]["adversaries"] == [0, 1]


@pytest.mark.parametrize(
    ("total", "of", "action", "misfits"),
    [(3, 10, 1, False), (2, 10, 1, True), (7, 10, 0, False), (8, 10, 0, True), (8, 10, 1, False)],
)
def test_penalty_does_not_apply_at_shares_of_0_3_and_0_7(total, of, action, misfits):
    rules = StagedRules(num_agents=of, cooperation_weight=0.0)
    assert rules.payoff(action, total, False) == approx(0.91 - 0.05 * misfits)


@pytest.mark.parametrize(
    ("seats", "adversaries"), [(1, 1), (3, 1), (4, 1), (7, 1), (8, 2), (11, 2), (12, 3)]
)
def test_a_quarter_and_at_least_one_are_adversaries(seats, adversaries):
    env = parallel_env(num_agents=seats)
    observations, _ = env.reset(seed=0)
    place = OBSERVATION_FIELDS.index("adversary")
    shown = [seen[place] for seen in observations.values()]
    assert shown == [1] * adversaries + [0] * (seats - adversaries)


@pytest.mark.parametrize("warmup", [0, 1, 3])
def test_warmup_lasts_warmup_episodes(warmup):
    env = parallel_env(warmup_episodes=warmup, max_cycles=2)
    phases = []
    for seed in (0, None, None, None, None):
        env.reset(seed=seed)
        _, rewards, _, _, infos = play(env, [1, 1, 1, 0, 0, 0, 0, 0])
        phases.append(infos["agent_0"]["phase"])
        assert (set(rewards.values()) == {0.7}) == (phases[-1] == "warmup")
    assert phases == ["warmup"] * warmup + ["divergence"] * (5 - warmup)


def test_episode_number_can_be_set_and_continues():
    env = parallel_env(max_cycles=1, warmup_episodes=20)
    phases = []
    for options in ({"episode": 19}, None, {"episode": 0}, None):
        env.reset(options=options)
        phases.append(play(env, [1] * 8)[4]["agent_0"]["phase"])
    assert phases == ["warmup", "divergence", "warmup", "warmup"]
    with pytest.raises(EnvConfigError, match=r'options\["episode"\].*got -1'):
        env.reset(options={"episode": -1})


def test_observation():
    env = staged(num_agents=4, max_cycles=5)
    observations, *_ = play(env, [0, 1, 1, 0])
    seen = dict(zip(OBSERVATION_FIELDS, observations["agent_0"].tolist(), strict=True))
    assert seen == approx(
        {
            "first_round": 0,
            "own_cooperated": 0,
            "all_cooperated": 0.5,
            "last_reward": 0.91 + 0.05,
            "time": 0.2,
            "warmup": 0,
            "ramp": 1,
            "adversary": 1,
            "difficulty": 0.3,
        }
    )
    assert env.text_view.describe("agent_0", observations["agent_0"]) == (
        "Round 2 of 5. You are an adversary. You chose to compete and earned 0.96. "
        "Cooperating: 2 of 4. Difficulty 0.30."
    )
    assert "adversary" not in env.text_view.describe("agent_1", observations["agent_1"])
