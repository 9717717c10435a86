"""Estimates of the payoff of each joint action from an agent's own rewards."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PRIOR_WEIGHT = 0.1  # rounds' worth of belief that a cell pays the mean of all rewards seen


class PayoffTable:
    """Mean and standard error of the own reward per joint action, for N runs at once.

    Arrays are (N, K, K): own action, then the other's.
    """

    def __init__(self, runs: int, actions: int = 2) -> None:
        self._cells = actions * actions
        self._shape = (runs, actions, actions)
        self.count = np.zeros(self._shape)
        """How often each joint action was rewarded."""
        self._total = np.zeros(self._shape)
        self._squares = np.zeros(self._shape)

    def add(
        self,
        own_NT: NDArray[np.int8],
        other_NT: NDArray[np.int8],
        reward_NT: NDArray[np.float64],
    ) -> None:
        """Take in one episode."""
        runs, actions = self._shape[:2]
        cell_NT = np.arange(runs)[:, None] * self._cells + own_NT * actions + other_NT
        flat = cell_NT.ravel()
        for table, weights in (
            (self.count, None),
            (self._total, reward_NT.ravel()),
            (self._squares, np.square(reward_NT).ravel()),
        ):
            table += np.bincount(flat, weights, minlength=table.size).reshape(self._shape)

    def of(self, run: int) -> PayoffTable:
        """The table of one of the runs alone."""
        alone = PayoffTable(1, self._shape[1])
        alone.count, alone._total, alone._squares = (
            table[run : run + 1] for table in (self.count, self._total, self._squares)
        )
        return alone

    def mean(self) -> NDArray[np.float64]:
        """Expected reward; of a joint action never seen, the mean of all rewards (0 before any)."""
        known = self._total + PRIOR_WEIGHT * self._overall()[:, None, None]
        return np.asarray(known / (self.count + PRIOR_WEIGHT))

    def error(self) -> NDArray[np.float64]:
        """Standard error of `mean`; of a joint action never seen, the spread of all rewards."""
        seen = self.noise()[:, None, None] / np.sqrt(np.maximum(self.count, 1.0))
        return np.asarray(np.where(self.count > 0, seen, self._spread()[:, None, None]))

    def noise(self) -> NDArray[np.float64]:
        """Standard deviation of the reward around its cell's mean, pooled over the cells: (N,)."""
        seen = np.maximum(self.count, 1.0)
        around = (self._squares - self._total * self._total / seen).sum(axis=(1, 2))
        freedom = self.count.sum(axis=(1, 2)) - (self.count > 0).sum(axis=(1, 2))
        return np.asarray(np.sqrt(np.maximum(around, 0.0) / np.maximum(freedom, 1.0)))

    def _overall(self) -> NDArray[np.float64]:
        rounds = np.maximum(self.count.sum(axis=(1, 2)), 1.0)
        return np.asarray(self._total.sum(axis=(1, 2)) / rounds)

    def _spread(self) -> NDArray[np.float64]:
        """Standard deviation of all rewards seen: (N,)."""
        rounds = np.maximum(self.count.sum(axis=(1, 2)), 1.0)
        square = self._squares.sum(axis=(1, 2)) / rounds
        return np.asarray(np.sqrt(np.maximum(square - np.square(self._overall()), 0.0)))
