import numpy as np
import pytest

from benchmarks.general_methods import EXP3Runs, FictitiousPlayRuns, SPlusPlusRuns

DILEMMA = np.array([[0.25, 1.0], [0.0, 0.75]])  # own action, other's
GAME = np.array([[0.9, 0.6], [0.6, 0.75]])


def test_exp3_update_matches_hand_computation():
    player = EXP3Runs([0], exploration=0.2)
    _, [chance] = player.act()
    assert chance == 0.5
    # Action 1 earned 1 + 1 at chance 1/2: an estimate of 4, a logit of .2 / 2 * 4 = .4.
    player.update(np.array([[1, 0, 1]], np.int8), np.array([[1.0, 0.0, 1.0]]))
    expected = 0.8 / (1 + np.exp(-0.4)) + 0.1
    chances = {int(action): chance for [action], [chance] in (player.act() for _ in range(20))}
    assert chances[1] == pytest.approx(expected)
    assert chances[0] == pytest.approx(1 - expected)


def test_fictitious_play_is_a_best_response_to_observed_replies():
    # This partner does the opposite of our last action: only alternation matches it.
    player, last = FictitiousPlayRuns([3]), np.zeros(1, np.int8)
    for _ in range(6):
        moves = []
        for t in range(16):
            other = np.ones(1, np.int8) if t == 0 else 1 - last
            last, _ = player.act()
            player.observe_opponent(other)
            moves.append((last[0], other[0]))
        own, met = np.array(moves, np.int8).T
        player.update(own[None], GAME[own, met][None])
    assert GAME[own, met].mean() > 0.8


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


def test_s_plus_plus_cooperates_with_tit_for_tat():
    assert played(lambda t, last: last).mean() > 0.6  # competing earns .25


@pytest.mark.parametrize(("action", "best"), [(0, 0.25), (1, 1.0)])
def test_s_plus_plus_competes_with_a_constant_partner(action, best):
    assert played(lambda t, last: np.full_like(last, action)).mean() > 0.9 * best
