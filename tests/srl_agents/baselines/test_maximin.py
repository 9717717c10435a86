import numpy as np
import pytest

from srl_agents.baselines.solutions import maximin


@pytest.mark.parametrize(
    ("payoffs", "strategy", "value"),
    [
        ([[1, 0], [0, 1]], [0.5, 0.5], 0.5),
        ([[3, 1], [2, 2]], [0, 1], 2),  # a saddle point
        ([[4, 0], [1, 3]], [1 / 3, 2 / 3], 2),
        ([[0, -1, 1], [1, 0, -1], [-1, 1, 0]], [1 / 3, 1 / 3, 1 / 3], 0),
        ([[0, -1, 2], [1, 0, -1], [-2, 1, 0]], [0.25, 0.5, 0.25], 0),
        ([[1, 0, 5], [0, 1, 5], [0.4, 0.4, 0]], [0.5, 0.5, 0], 0.5),  # the third is dominated
        ([[2, 2], [2, 2]], None, 2),
    ],
)
def test_by_hand(payoffs, strategy, value):
    [found], [sure] = maximin(np.array([payoffs], float))
    assert sure == pytest.approx(value)
    if strategy is not None:
        assert found == pytest.approx(strategy)


def test_no_strategy_on_a_grid_is_better():
    generator = np.random.default_rng(0)
    games = generator.random((40, 3, 3))
    _, value_N = maximin(games)
    grid = np.array([(i, j, 20 - i - j) for i in range(21) for j in range(21 - i)]) / 20
    best_N = np.einsum("mk,nko->mno", grid, games).min(axis=2).max(axis=0)
    assert (value_N >= best_N - 1e-9).all()
    assert (value_N < best_N + 0.06).all()
