import pytest
from pytest import approx

from srl_envs.games.team_battle import OBSERVATION_FIELDS, parallel_env


def battle(**parameters):
    """An environment without noise."""
    env = parallel_env(**{"noise_std": 0.0, **parameters})
    env.reset(seed=0)
    return env


def play(env, red, blue):
    """One round in which `red` and `blue` of each team cooperate, the first seats first."""
    red_size, blue_size = env.rules.team_sizes
    chosen = [1] * red + [0] * (red_size - red) + [1] * blue + [0] * (blue_size - blue)
    return env.step(dict(zip(env.agents, chosen, strict=True)))


def test_rewards_and_observations_of_a_round():
    env = battle(max_cycles=4)
    observations, rewards, _, _, infos = play(env, red=3, blue=4)
    assert list(rewards.values()) == approx([0.75, 0.75, 0.75, 0.9125, *[0.825] * 4])
    seen = dict(zip(OBSERVATION_FIELDS, observations["blue_0"].tolist(), strict=True))
    assert seen == approx(
        {
            "first_round": 0,
            "own_cooperated": 1,
            "own_team_cooperated": 1,
            "rivals_cooperated": 0.75,
            "last_reward": 0.825,
            "time": 0.25,
            "warmup": 0,
            "blue": 1,
            "difficulty": 0.3,
        }
    )
    assert observations["red_3"].tolist()[1:4] == [0, 0.75, 1]
    assert infos["red_0"]["team_cooperation"] == {"team_a": 0.75, "team_b": 1.0}
    assert infos["red_0"]["cooperation_ratio"] == 7 / 8
    assert infos["red_0"]["phase"] == "battle"
    assert "winner" not in infos["red_0"]


@pytest.mark.parametrize(
    ("rounds", "winner"),
    [
        ([(4, 4), (4, 4)], "draw"),
        ([(1, 1), (3, 3)], "draw"),
        # red cooperates alone: red .825, blue .575 + .15 = .725
        ([(4, 4), (4, 0)], "team_a"),
        ([(0, 4), (2, 2)], "team_b"),
        ([(4, 0), (0, 4)], "draw"),
    ],
)
def test_winner(rounds, winner):
    env = battle(noise_std=0.5, max_cycles=len(rounds))  # noise is luck; it decides nothing
    for red, blue in rounds:
        infos = play(env, red, blue)[4]
    assert {info["winner"] for info in infos.values()} == {winner}


def test_winner_has_the_higher_reward_per_member():
    env = battle(team_size=(1, 3), max_cycles=1)
    assert list(env.teams.values()) == ["team_a", "team_b", "team_b", "team_b"]
    _, rewards, _, _, infos = play(env, red=0, blue=2)
    blue = 0.7 + 0.25 / 6
    assert list(rewards.values()) == approx([0.675, blue - 0.05 / 3, blue - 0.05 / 3, blue])
    assert infos["red_0"]["winner"] == "team_b"
    # Red cooperates for .825; blue competes for .575 + .15 = .725 each, more only together.
    env.reset()
    assert play(env, red=1, blue=0)[4]["red_0"]["winner"] == "team_a"


def test_situation_in_words():
    env = battle(max_cycles=4)
    observations, *_ = play(env, red=3, blue=1)
    assert env.text_view.describe("red_3", observations["red_3"]) == (
        "Round 2 of 4. You chose to compete and earned 0.80. Team cooperating: 3 of 4. "
        "Rivals cooperating: 1 of 4. Difficulty 0.30."
    )
    assert "You are blue_1 in the blue team of 4, against the red team of 4." in (
        env.text_view.rules("blue_1")
    )
    first, _ = parallel_env(max_cycles=4, warmup_episodes=1).reset()
    said = env.text_view.describe("red_0", first["red_0"])
    assert said.startswith("Round 1 of 4. Warm-up: all earn the same. Nobody has chosen yet.")


def test_baselines():
    assert battle().baselines()["optimum"] == approx(0.825)
    # At random own is .5 on average, so .7 + .5 * .15 * .5 - .5 * .05 * 3/8 (of a cooperator's
    # three mates 1.5 compete: 1 - own = 3/8).
    assert battle().baselines()["uniform"] == approx(0.7 + 0.0375 - 0.009375)
