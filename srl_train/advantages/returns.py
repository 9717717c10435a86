"""Returns and reward arithmetic of one trajectory: pure functions in float64.

Axes are in the names: _T turns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def rewards_to_go(rewards_T: Sequence[float] | Floats, discount: float) -> list[float]:
    """At each turn t, sum over k >= t of discount**(k - t) * rewards_T[k]."""
    found: list[float] = []
    total = 0.0
    for reward in reversed(rewards_T):
        total = float(reward) + discount * total
        found.append(total)
    return found[::-1]


def discounted_return(rewards_T: Sequence[float] | Floats, discount: float) -> float:
    """Sum over t of discount**t * rewards_T[t] (Sutton and Barto 2018, eq. 3.8); 0 for no turns."""
    return next(iter(rewards_to_go(rewards_T, discount)), 0.0)
