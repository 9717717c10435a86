"""Advantages from a critic's values (GAE), and the normalization of values.

Pure functions in float64. Axes are in the names of arguments: `_T` is actions of one agent in one
episode, `_T1` is one more.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def generalized_advantages(
    rewards_T: Sequence[float] | Floats,
    values_T1: Sequence[float] | Floats,
    discounts_T: Sequence[float] | Floats,
    lambda_: float,
) -> Floats:
    """Compute advantages (T,) by GAE (Schulman et al. 2016, eq. 16), with a discount per action.

    delta_t = r_t + discount_t * v_{t+1} - v_t,  A_t = delta_t + discount_t * lambda * A_{t+1}.

    Args:
        rewards_T: Reward of each action.
        values_T1: Value before each action, and after the last one: 0 for an episode that ended.
        discounts_T: Discount from each action to the next, or from the last one to the end.
        lambda_: Weight of later temporal differences, 0 to 1.
    """
    advantages_T = np.zeros(len(rewards_T))
    running = 0.0
    for t in reversed(range(len(rewards_T))):
        delta = rewards_T[t] + discounts_T[t] * values_T1[t + 1] - values_T1[t]
        running = delta + discounts_T[t] * lambda_ * running
        advantages_T[t] = running
    return advantages_T


def standardized(advantages: Floats, kinds: Sequence[Hashable] | None = None) -> Floats:
    """Return (advantages - means) / (population standard deviation of the differences + 1e-8).

    The mean is that of all advantages. With `kinds`, the kind of each action, it is per kind
    (Greensmith et al. 2004, sec. 3), except for the only action of a kind.
    """
    members: dict[Hashable, list[int]] = {}
    for number, kind in enumerate(kinds or ()):
        members.setdefault(kind, []).append(number)
    means = np.full(len(advantages), advantages.mean())
    for alike in members.values():
        if len(alike) > 1:
            means[alike] = advantages[alike].mean()
    shifted = advantages - means
    scaled: Floats = shifted / (shifted.std() + 1e-8)
    return scaled


def explained_variance(values: Floats, returns: Floats) -> float | None:
    """Return 1 - Var(returns - values) / Var(returns), or None if all returns are equal."""
    spread = returns.var()
    return None if spread == 0.0 else float(1.0 - (returns - values).var() / spread)


DECAY = 0.99
"""Factor of an update's weight per later update: about the last hundred updates count."""


class ValueScale:
    """Running mean and deviation of returns, the units of a normalized critic.

    Value normalization of Yu et al. 2022, sec. 5.1: the critic learns (R - mean) / deviation.
    Mean and variance are those of a mixture of all updates' returns with exponentially decaying
    weights (West 1979).
    """

    def __init__(self) -> None:
        self._weight, self._mean, self._variance = 0.0, 0.0, 1.0

    @property
    def deviation(self) -> float:
        """Weighted standard deviation of all updates' returns, at least 1e-8; 1.0 at first."""
        return max(math.sqrt(self._variance), 1e-8)

    def update(self, returns: Floats) -> None:
        """Add an update's returns with weight 1; multiply all earlier weights by 0.99."""
        self._weight = DECAY * self._weight + 1.0
        share = 1.0 / self._weight
        ahead = float(returns.mean()) - self._mean
        self._mean += share * ahead
        older = self._variance + share * ahead**2
        self._variance = (1.0 - share) * older + share * float(returns.var())

    def normalize(self, returns: Floats) -> Floats:
        """Return (returns - mean) / deviation, the critic's targets; unchanged before `update`."""
        return (returns - self._mean) / self.deviation

    def restore(self, values: Floats) -> Floats:
        """Return values * deviation + mean, the inverse of `normalize`."""
        return values * self.deviation + self._mean

    def state(self) -> list[float]:
        """Return [weight, mean, variance] for `load_state`; weight is the decayed update count."""
        return [self._weight, self._mean, self._variance]

    def load_state(self, state: Sequence[float]) -> None:
        """Set weight, mean and variance from the result of `state`."""
        self._weight, self._mean, self._variance = state
