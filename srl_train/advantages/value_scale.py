"""Value normalisation: the running mean and deviation of a critic's targets, in float64."""

from __future__ import annotations

import math
from collections.abc import Sequence

from srl_train.advantages.returns import Floats

DECAY = 0.99
"""Of an older update's weight from one update to the next: about the last hundred count."""


class ValueScale:
    """What a critic's values are in: deviations from the mean of the returns of past updates.

    After Yu et al. 2022, sec. 5.1: the critic learns (R - mean) / deviation, and its values are
    scaled back before advantages are computed. Mean and variance are those of a mixture of all
    updates' returns, one update old weighing DECAY times as much as the newest (West 1979).
    """

    def __init__(self) -> None:
        """Before the first update values are in units of return."""
        self._weight, self._mean, self._variance = 0.0, 0.0, 1.0

    @property
    def deviation(self) -> float:
        """The standard deviation, in units of return; above 0 where all returns are equal too."""
        return max(math.sqrt(self._variance), 1e-8)

    def update(self, returns: Floats) -> None:
        """Take in the returns of one update."""
        self._weight = DECAY * self._weight + 1.0
        share = 1.0 / self._weight
        ahead = float(returns.mean()) - self._mean
        self._mean += share * ahead
        older = self._variance + share * ahead**2
        self._variance = (1.0 - share) * older + share * float(returns.var())

    def normalised(self, returns: Floats) -> Floats:
        """What a critic learns for these returns."""
        return (returns - self._mean) / self.deviation

    def restored(self, values: Floats) -> Floats:
        """Values in units of return, of a critic that gave these."""
        return values * self.deviation + self._mean

    def state(self) -> list[float]:
        """The updates' weight, the mean and the variance."""
        return [self._weight, self._mean, self._variance]

    def load_state(self, state: Sequence[float]) -> None:
        """Restore what `state` gave."""
        self._weight, self._mean, self._variance = state
