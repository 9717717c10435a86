"""Agreements of two players on a cycle of joint actions that is fair to both."""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from srl_agents.baselines.maximin import maximin

CYCLE = 24  # rounds: mixtures of two joint actions in 24ths
SLACK = 0.01  # of each player's range of payoffs; see `fair_cycle`

Cell = tuple[int, int]
"""A joint action: the row player's, the column player's."""


class Agreement(NamedTuple):
    """What both play, over and over."""

    cells: tuple[Cell, ...]
    """The joint actions of CYCLE rounds."""
    row: float
    """Mean payoff of the row player."""
    column: float


def fair_cycle(row_KK: NDArray[np.float64], column_KK: NDArray[np.float64]) -> Agreement:
    """The Nash bargaining solution among the cycles of one or two joint actions.

    Both tables are indexed (row's action, column's). The product of both players' gains over what
    each can be sure of is the largest (Nash 1950; over repeated play, Littman and Stone 2005); it
    lies on an edge of the hull of the payoffs, so two joint actions are enough. Gains count from
    SLACK below the maximin value: where no agreement is better than it for both, as in zero-sum
    games, the one nearest to it is found.
    """
    actions = len(row_KK)
    weight_AJ = _shares(actions)
    value_A2 = weight_AJ @ np.stack([row_KK.ravel(), column_KK.ravel()], axis=1)
    _, sure_2 = maximin(np.stack([row_KK, column_KK.T]))
    best = int(product_of_gains(value_A2, sure_2, row_KK, column_KK).argmax())
    return Agreement(_cells(weight_AJ[best], actions), *map(float, value_A2[best]))


def product_of_gains(
    value_A2: NDArray[np.float64],
    sure_2: NDArray[np.float64],
    row_KK: NDArray[np.float64],
    column_KK: NDArray[np.float64],
) -> NDArray[np.float64]:
    """What the bargain maximises, for A pairs of mean payoffs; -inf where one would refuse."""
    range_2 = np.maximum([np.ptp(row_KK), np.ptp(column_KK)], 1e-12)
    gain_A2 = (value_A2 - sure_2) / range_2 + SLACK
    refused_A = (gain_A2 < 0.0).any(axis=1)
    # Rounded, so that equal bargains stay equal and the first is taken by both players.
    return np.asarray(np.where(refused_A, -np.inf, gain_A2.prod(axis=1).round(9)))


@cache
def _shares(actions: int) -> NDArray[np.float64]:
    """Every cycle as the share of each joint action in it: (cycles, K * K)."""
    cells = actions * actions
    rows = list(np.eye(cells))
    for first in range(cells):
        for second in range(first + 1, cells):
            for rounds in range(1, CYCLE):
                share = np.zeros(cells)
                share[first], share[second] = rounds / CYCLE, 1.0 - rounds / CYCLE
                rows.append(share)
    return np.array(rows)


def _cells(share_J: NDArray[np.float64], actions: int) -> tuple[Cell, ...]:
    """The rounds of a cycle, its two joint actions spread evenly."""
    rounds_J = np.rint(share_J * CYCLE).astype(int)
    used = np.flatnonzero(rounds_J)
    first = rounds_J[used[0]]
    order = [
        used[0] if (t + 1) * first // CYCLE > t * first // CYCLE else used[-1] for t in range(CYCLE)
    ]
    return tuple((int(cell) // actions, int(cell) % actions) for cell in order)
