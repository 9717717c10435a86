"""Estimates of the payoff of each joint action from an agent's own rewards."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

PRIOR_WEIGHT = 0.1  # rounds' worth of belief that a cell pays the mean of all rewards seen


class PayoffTable:
    """Mean and standard error of the own reward per joint action, for N runs at once.

    Arrays are (N, 2, 2): own action, then the other's.
    """

    def __init__(self, runs: int) -> None:
        self._count = np.zeros((runs, 2, 2))
        self._total = np.zeros((runs, 2, 2))
        self._squares = np.zeros((runs, 2, 2))

    def add(
        self,
        own_NT: NDArray[np.int8],
        other_NT: NDArray[np.int8],
        reward_NT: NDArray[np.float64],
    ) -> None:
        """Take in one episode."""
        square_NT = reward_NT * reward_NT
        for own in (0, 1):
            for other in (0, 1):
                here_NT = (own_NT == own) & (other_NT == other)
                self._count[:, own, other] += here_NT.sum(axis=1)
                self._total[:, own, other] += (reward_NT * here_NT).sum(axis=1)
                self._squares[:, own, other] += (square_NT * here_NT).sum(axis=1)

    def mean(self) -> NDArray[np.float64]:
        """Expected reward; of a joint action never seen, the mean of all rewards (0 before any)."""
        count = self._count.sum(axis=(1, 2))
        overall = self._total.sum(axis=(1, 2)) / np.maximum(count, 1.0)
        known = self._total + PRIOR_WEIGHT * overall[:, None, None]
        return np.asarray(known / (self._count + PRIOR_WEIGHT))

    def error(self) -> NDArray[np.float64]:
        """Standard error of `mean`; of a joint action never seen, that of a single round."""
        return np.asarray(self._noise()[:, None, None] / np.sqrt(np.maximum(self._count, 1.0)))

    def gap(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(1, 1) over (0, 0): the difference in pay and its standard error, each (N,).

        The error is infinite until both were seen at least twice.
        """
        mean, both = self.mean(), np.minimum(self._count[:, 1, 1], self._count[:, 0, 0])
        variance = 1.0 / np.maximum(self._count, 1.0)
        error = self._noise() * np.sqrt(variance[:, 1, 1] + variance[:, 0, 0])
        return mean[:, 1, 1] - mean[:, 0, 0], np.where(both >= 2, error, np.inf)

    def _noise(self) -> NDArray[np.float64]:
        """Standard deviation of the reward around its cell's mean, pooled over the cells: (N,)."""
        seen = np.maximum(self._count, 1.0)
        around = (self._squares - self._total * self._total / seen).sum(axis=(1, 2))
        freedom = self._count.sum(axis=(1, 2)) - (self._count > 0).sum(axis=(1, 2))
        return np.asarray(np.sqrt(np.maximum(around, 0.0) / np.maximum(freedom, 1.0)))
