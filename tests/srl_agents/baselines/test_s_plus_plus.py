import numpy as np
import pytest

from srl_agents.baselines.s_plus_plus import SPlusPlusRuns

DILEMMA = np.array([[0.25, 1.0], [0.0, 0.75]])  # own action, other's


def played(other, rounds=1600, runs=6):
    """Mean payoff per run in the prisoners' dilemma of the last quarter."""
    player = SPlusPlusRuns(
        list(range(runs)), np.tile(DILEMMA, (runs, 1, 1)), np.tile(DILEMMA.T, (runs, 1, 1))
    )
    earned = np.zeros((rounds, runs))
    last = np.ones(runs, np.int8)
    for t in range(rounds):
        own, _ = player.act()
        reply = other(t, last)
        player.observe_opponent(reply)
        earned[t], last = DILEMMA[own, reply], own
    return earned[-rounds // 4 :].mean(axis=0)


def test_it_cooperates_with_tit_for_tat():
    assert played(lambda t, last: last).mean() > 0.6  # competing earns .25


@pytest.mark.parametrize(("action", "best"), [(0, 0.25), (1, 1.0)])
def test_it_competes_with_who_does_not_care(action, best):
    assert played(lambda t, last: np.full_like(last, action)).mean() > 0.9 * best


def test_two_of_a_kind_cooperate():
    players = [
        SPlusPlusRuns(list(range(first, first + 6)), *[np.tile(DILEMMA, (6, 1, 1)),
                                                       np.tile(DILEMMA.T, (6, 1, 1))])
        for first in (0, 50)
    ]  # fmt: skip
    total = np.zeros(6)
    for t in range(2400):
        a, b = (player.act()[0] for player in players)
        players[0].observe_opponent(b)
        players[1].observe_opponent(a)
        total += (t >= 1800) * (DILEMMA[a, b] + DILEMMA[b, a]) / 1200
    assert total.mean() > 0.65
