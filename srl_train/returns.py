"""Discounted sums of the rewards of one trajectory.

Pure functions in float64. `_T` in the name of an argument is the axis of steps of one agent in one
episode.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def rewards_to_go(rewards_T: Sequence[float] | Floats, discount: float) -> list[float]:
    """Return sum over k >= t of discount**(k - t) * rewards_T[k], for each step t."""
    found: list[float] = []
    total = 0.0
    for reward in reversed(rewards_T):
        total = float(reward) + discount * total
        found.append(total)
    return found[::-1]


def discounted_return(rewards_T: Sequence[float] | Floats, discount: float) -> float:
    """Return sum over t of discount**t * rewards_T[t] (Sutton and Barto 2018, eq. 3.8)."""
    return next(iter(rewards_to_go(rewards_T, discount)), 0.0)
