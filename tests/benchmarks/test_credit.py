"""The key game, the tabular learners and the claims that are judged by them."""

import numpy as np
import pytest

from benchmarks import credit
from benchmarks.credit import AGENTS, COLOUR, HOLDER, PRIZE, TURNS, WHEN, key_rewards
from benchmarks.games import COLOURS
from srl_train.credit import PlainCredit


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


@pytest.mark.slow
def test_per_agent_and_agent_turn_need_a_third_of_the_episodes():
    [found] = credit.key_games([0], [3.0], learners=3, most=12_000)
    assert min(found["times_per_agent"], found["times_agent_turn"]) >= 3
    assert found["times_per_agent"] == found["team_joint"] / found["per_agent"]


def test_runs_without_solution_are_reported():
    assert credit.games_until_found(PlainCredit(name="team_joint"), 0.01, 0, 200) == float("inf")


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 2))]
)
def test_advantage_alignment_cooperates_in_a_dilemma(seed):
    plain, aligned = (
        credit.dilemma(own, 0.3, seed, updates=80, games=32)["cooperation"]
        for own in credit.DILEMMA_CREDIT.values()
    )
    assert plain < 0.1
    assert aligned > 0.6


@pytest.mark.slow
def test_whole_table(small):
    options = {"rates": [3.0], "most": 40, "learners": 1, "dilemma_updates": 2}
    request = small("credit", seeds=(0,), change={"options": options})
    result = credit.measure(request)
    text = request.claim.markdown(result, request)
    assert "**The key game**" in text and "| agent_turn | 0 |" in text
    assert not all(check.held for check in request.claim.judge(result))
