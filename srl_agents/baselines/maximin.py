"""Maximin strategies: what a player can be sure of in a matrix game, whatever the other does."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from numpy.typing import NDArray


def maximin(payoff_NKK: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The maximin strategies (N, K) of N games and their values (N,); payoffs are (own, other).

    Exact: some optimal strategy makes the other indifferent between the columns of a square
    submatrix (Shapley and Snow 1950), so it is enough to try every one of these.
    """
    runs, actions = payoff_NKK.shape[:2]
    identity = np.broadcast_to(np.eye(actions), (runs, actions, actions))
    candidates = [identity[:, own] for own in range(actions)]
    for size in range(2, actions + 1):
        for rows in combinations(range(actions), size):
            for columns in combinations(range(actions), size):
                block = payoff_NKK[:, rows][:, :, columns]
                mixed = np.zeros((runs, actions))
                mixed[:, rows] = _indifferent(block)
                candidates.append(mixed)
    strategy_MNK = np.stack(candidates)
    sure_MN = np.einsum("mnk,nko->mno", strategy_MNK, payoff_NKK).min(axis=2)
    best_N = sure_MN.argmax(axis=0)
    runs_N = np.arange(runs)
    return strategy_MNK[best_N, runs_N], sure_MN[best_N, runs_N]


def _indifferent(block_NSS: NDArray[np.float64]) -> NDArray[np.float64]:
    """The mixture of rows under which all columns pay the same; the first row where none is."""
    runs, size = block_NSS.shape[:2]
    # All columns pay as the last one, and the chances sum to one.
    equations = np.ones((runs, size, size))
    equations[:, :-1] = (block_NSS[:, :, :-1] - block_NSS[:, :, -1:]).transpose(0, 2, 1)
    right = np.zeros((runs, size, 1))
    right[:, -1] = 1.0
    solvable_N = np.abs(np.linalg.det(equations)) > 1e-12
    equations[~solvable_N] = np.eye(size)
    mixed_NS = np.linalg.solve(equations, right)[:, :, 0]
    valid_N = solvable_N & (mixed_NS >= 0.0).all(axis=1)
    return np.asarray(np.where(valid_N[:, None], mixed_NS, np.eye(size)[0]))
