"""Reward arithmetic on one group or one episode: pure functions, float64.

Axes are in the names: _T turns, _G members of a group.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

DEVIATION_FLOOR = 1e-4
"""Added to a group's standard deviation before dividing by it, as TRL's GRPOTrainer does."""


def discounted_return(rewards_T: Sequence[float] | Floats, discount: float) -> float:
    """Sum over t of discount**t * rewards_T[t] (Sutton and Barto 2018, eq. 3.8); 0 for no turns."""
    total = 0.0
    for reward in reversed(rewards_T):
        total = float(reward) + discount * total
    return total


def group_advantages(returns_G: Sequence[float] | Floats, scale: bool = True) -> Floats:
    """Each member's return less the group's mean (Shao et al. 2024, 4.1.2).

    With `scale` divided by (standard deviation + 1e-4), the deviation with G - 1 in its
    denominator, as TRL does with scale_rewards "group". A group of equal returns, of one member or
    of none gives zeros: it says nothing about which episode was better.
    """
    returns_G = np.asarray(returns_G, dtype=np.float64)
    if len(returns_G) < 2 or np.all(returns_G == returns_G[0]):
        return np.zeros_like(returns_G)
    advantages_G: Floats = returns_G - returns_G.mean()
    if scale:
        advantages_G = advantages_G / (returns_G.std(ddof=1) + DEVIATION_FLOOR)
    return advantages_G
