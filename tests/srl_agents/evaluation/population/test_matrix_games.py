"""Exact exploitability of matrix games, by hand."""

import numpy as np
import pytest

from srl_agents.evaluation.population.matrix_games import (
    best_responses,
    exploitability,
    nash_conv,
)

PENNIES = np.array([[1.0, -1.0], [-1.0, 1.0]])
# Dilemma: cooperate, defect.
ROW = np.array([[3.0, 0.0], [5.0, 1.0]])


def test_matching_pennies_by_hand():
    game = [PENNIES, -PENNIES]
    assert nash_conv(game, [[0.5, 0.5], [0.5, 0.5]]) == pytest.approx(0.0, abs=1e-12)
    # The row plays heads with .8: the column's tails earn .6, and now both earn 0.
    row, column = best_responses(game, [[0.8, 0.2], [0.5, 0.5]])
    assert row.gain == pytest.approx(0.0)
    assert (column.best, column.action) == (pytest.approx(0.6), 1)
    assert exploitability(game, [[0.8, 0.2], [0.5, 0.5]]) == pytest.approx(0.3)


def test_the_dilemma_by_hand():
    game = [ROW, ROW.T]
    row, column = best_responses(game, [[1.0, 0.0], [1.0, 0.0]])
    assert (row.value, row.best, row.action) == (3.0, 5.0, 1) == tuple(column)
    assert nash_conv(game, [[0.0, 1.0], [0.0, 1.0]]) == 0.0


def test_three_players_by_hand():
    # Everyone earns 1 where all three do the same, else nothing; the others play heads with .5, .2.
    payoffs = np.zeros((2, 2, 2))
    payoffs[0, 0, 0] = payoffs[1, 1, 1] = 1.0
    first, second, third = best_responses([payoffs] * 3, [[1.0, 0.0], [0.5, 0.5], [0.2, 0.8]])
    assert first == pytest.approx((0.1, 0.4, 1))  # heads .5 * .2, tails .5 * .8
    assert second == pytest.approx((0.1, 0.2, 0))
    assert third == pytest.approx((0.1, 0.5, 0))


def test_what_does_not_fit_is_refused():
    with pytest.raises(ValueError, match="shape"):
        nash_conv([PENNIES], [[0.5, 0.5], [0.5, 0.5]])
    with pytest.raises(ValueError, match="sum to 1"):
        nash_conv([PENNIES, PENNIES], [[0.5, 0.6], [0.5, 0.5]])
