"""Reward arithmetic on one episode: pure functions, float64.

Axes are in the names: _T turns.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


def discounted_return(rewards_T: Sequence[float] | Floats, discount: float) -> float:
    """Sum over t of discount**t * rewards_T[t] (Sutton and Barto 2018, eq. 3.8); 0 for no turns."""
    total = 0.0
    for reward in reversed(rewards_T):
        total = float(reward) + discount * total
    return total
