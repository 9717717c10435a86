"""The key game, the tabular learners and the claims that are judged by them."""

import numpy as np
import pytest

from benchmarks import credit
from benchmarks.credit import COLOUR, HOLDER, KEY_CREDIT, PRIZE, TURNS, WHEN, key_rewards
from benchmarks.games import COLOURS
from srl_train.credit import PlainCredit

AGENTS = 4


def test_only_one_action_matters():
    weather = np.random.default_rng(0).normal(size=(AGENTS, TURNS))
    for seat in range(AGENTS):
        for turn in range(TURNS):
            chosen = np.full((AGENTS, TURNS), COLOUR - 1)
            chosen[seat, turn] = COLOUR
            extra = key_rewards(chosen, weather) - weather
            expected = np.zeros((AGENTS, TURNS))
            expected[HOLDER, WHEN] = PRIZE * ((seat, turn) == (HOLDER, WHEN))
            np.testing.assert_allclose(extra, expected, atol=1e-12)


def test_replay_gain_equals_the_prize():
    rng = np.random.default_rng(0)
    chosen = rng.integers(len(COLOURS), size=(8, AGENTS, TURNS))
    weather = rng.normal(size=chosen.shape)
    prize = np.zeros(chosen.shape)
    prize[:, HOLDER, WHEN] = chosen[:, HOLDER, WHEN] == COLOUR
    np.testing.assert_allclose(credit._gains("difference", chosen, weather), prize, atol=1e-9)
    prize[:, HOLDER, WHEN] -= 1 / len(COLOURS)
    np.testing.assert_allclose(credit._gains("counterfactual", chosen, weather), prize, atol=1e-9)


def test_slope_is_that_of_a_power():
    agents = [2, 4, 8]
    assert credit.slope(agents, [3 * n**0.5 for n in agents]) == pytest.approx(0.5)
    assert credit.slope(agents, [7, 7, 7]) == pytest.approx(0)


def test_predicted_episodes_follow_the_deviation_of_the_signal():
    rng = np.random.default_rng(0)
    for agents in (2, 8):
        chosen = rng.integers(4, size=(4000, agents, TURNS))
        weather = credit.WEATHER * rng.normal(size=chosen.shape)
        paid = key_rewards(chosen, weather)
        known = {
            "team_joint": paid.sum(axis=(1, 2)),
            "per_agent": paid[:, HOLDER].sum(axis=-1),
            "counterfactual": credit._gains("counterfactual", chosen, weather)[:, HOLDER, WHEN],
        }
        for name, signal in known.items():
            assert signal.std() == pytest.approx(credit.predicted(name, agents), rel=0.05), name
    steps = [credit.steps_of(name, 2) for name in ("per_agent", "difference", "counterfactual")]
    assert steps == [8, 8 + 72, 8 + 3 * 72]


@pytest.mark.slow
def test_per_agent_and_agent_turn_need_a_third_of_the_episodes():
    rows = credit.key_games([0], [3.0], [2, 16], most=12_000)
    found = {row["credit"]: row for row in rows}
    assert list(found) == list(KEY_CREDIT)
    for name in ("per_agent", "agent_turn"):
        row = found[name]
        assert row["times"] == found["team_joint"]["episodes_16"] / row["episodes_16"] >= 3
        assert row["apart"] == row["slope"] - row["predicted"]
    fewer = found["agent_turn"]["episodes_16"] / found["difference"]["episodes_16"]
    assert found["difference"]["fewer"] == fewer
    assert found["difference"]["steps_slope"] > found["difference"]["slope"] + 0.5


def test_runs_without_solution_are_reported():
    plain = PlainCredit(name="team_joint")
    assert credit.games_until_found(plain, 0.01, 0, 200, AGENTS) == float("inf")


@pytest.mark.slow
def test_whole_table(small):
    options = {"rates": [0.3], "agents": [2, 4], "most": 4000}
    request = small("credit", seeds=(0, 1), change={"options": options})
    result = credit.measure(request)
    text = request.claim.markdown(result, request)
    assert "**The key game**" in text and "| agent_turn | 0 |" in text
    assert not all(check.held for check in request.claim.judge(result))
