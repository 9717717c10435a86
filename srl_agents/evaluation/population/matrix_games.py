"""Exact best responses and exploitability in matrix games of any number of players."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


class Exploited(NamedTuple):
    """What one player could gain by deviating alone."""

    value: float
    """What it earns now."""
    best: float
    """What its best response earns."""
    action: int
    """That response; the first of several."""

    @property
    def gain(self) -> float:
        """How much better the best response is; 0 in equilibrium."""
        return self.best - self.value


def best_responses(
    payoffs: Sequence[ArrayLike], strategies: Sequence[ArrayLike]
) -> list[Exploited]:
    """Player by player, its best response while all others keep their mixed strategies.

    `payoffs[p]` has one axis per player, and holds what player p earns. `strategies[p]` are the
    chances of player p's actions.

    Raises ValueError for shapes that do not fit, and for strategies that are no distributions.
    """
    tables = [np.asarray(table, dtype=np.float64) for table in payoffs]
    mixed = [np.asarray(strategy, dtype=np.float64) for strategy in strategies]
    shape = tuple(len(strategy) for strategy in mixed)
    if len(tables) != len(mixed) or any(table.shape != shape for table in tables):
        told = ", ".join(str(table.shape) for table in tables)
        raise ValueError(f"strategies are of a game of shape {shape}, the payoffs are {told}")
    for strategy in mixed:
        if (strategy < 0).any() or not np.isclose(strategy.sum(), 1.0, rtol=0, atol=1e-9):
            raise ValueError(f"a mixed strategy must be chances that sum to 1, got {strategy}")
    found = []
    for player, table in enumerate(tables):
        by_action = table
        for other in reversed(range(len(mixed))):  # from the last axis, so that none moves
            if other != player:
                by_action = np.tensordot(by_action, mixed[other], axes=(other, 0))
        action = int(by_action.argmax())
        found.append(Exploited(float(by_action @ mixed[player]), float(by_action[action]), action))
    return found


def nash_conv(payoffs: Sequence[ArrayLike], strategies: Sequence[ArrayLike]) -> float:
    """The sum of all players' gains; 0 in a Nash equilibrium only. Raises as `best_responses`."""
    return sum(one.gain for one in best_responses(payoffs, strategies))


def exploitability(payoffs: Sequence[ArrayLike], strategies: Sequence[ArrayLike]) -> float:
    """The players' mean gain, as it is usual for zero-sum games. Raises as `best_responses`."""
    return nash_conv(payoffs, strategies) / len(strategies)
