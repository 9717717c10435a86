"""Solutions of matrix games: maximin strategies, fair agreements and best responses."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


def maximin(payoff_NKK: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the maximin strategies (N, K) and values (N,) of payoffs (own, other).

    Some optimal strategy equalizes the columns of a square submatrix (Shapley and Snow 1950);
    all are tried.
    """
    runs, actions = payoff_NKK.shape[:2]
    identity = np.broadcast_to(np.eye(actions), (runs, actions, actions))
    candidates = [identity[:, own] for own in range(actions)]
    for size in range(2, actions + 1):
        for rows in combinations(range(actions), size):
            for columns in combinations(range(actions), size):
                block = payoff_NKK[:, rows][:, :, columns]
                mixed = np.zeros((runs, actions))
                mixed[:, rows] = _indifferent(block)
                candidates.append(mixed)
    strategy_MNK = np.stack(candidates)
    sure_MN = np.einsum("mnk,nko->mno", strategy_MNK, payoff_NKK).min(axis=2)
    best_N = sure_MN.argmax(axis=0)
    runs_N = np.arange(runs)
    return strategy_MNK[best_N, runs_N], sure_MN[best_N, runs_N]


def _indifferent(block_NSS: NDArray[np.float64]) -> NDArray[np.float64]:
    runs, size = block_NSS.shape[:2]
    # All columns pay as the last one, and the chances sum to one.
    equations = np.ones((runs, size, size))
    equations[:, :-1] = (block_NSS[:, :, :-1] - block_NSS[:, :, -1:]).transpose(0, 2, 1)
    right = np.zeros((runs, size, 1))
    right[:, -1] = 1.0
    solvable_N = np.abs(np.linalg.det(equations)) > 1e-12
    equations[~solvable_N] = np.eye(size)
    mixed_NS = np.linalg.solve(equations, right)[:, :, 0]
    valid_N = solvable_N & (mixed_NS >= 0.0).all(axis=1)
    return np.asarray(np.where(valid_N[:, None], mixed_NS, np.eye(size)[0]))


CYCLE = 24  # rounds: mixtures of two joint actions in 24ths
SLACK = 0.01  # of each player's range of payoffs; see `fair_cycle`

Cell = tuple[int, int]
"""Joint action: the row player's, the column player's."""


class Agreement(NamedTuple):
    """Cycle of joint actions."""

    cells: tuple[Cell, ...]
    row: float
    """Mean payoff of the row player."""
    column: float


def fair_cycle(row_KK: NDArray[np.float64], column_KK: NDArray[np.float64]) -> Agreement:
    """Return the Nash bargaining solution among cycles of one or two joint actions.

    Both tables are indexed (row's action, column's). The product of gains over the maximin
    values is maximal (Nash 1950; Littman and Stone 2005). Gains count from SLACK below the
    maximin value, so that an agreement exists in zero-sum games too.
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
    """Return the bargaining objective of A pairs of payoffs; -inf if one player would refuse."""
    range_2 = np.maximum([np.ptp(row_KK), np.ptp(column_KK)], 1e-12)
    gain_A2 = (value_A2 - sure_2) / range_2 + SLACK
    refused_A = (gain_A2 < 0.0).any(axis=1)
    # Rounded, so that equal bargains stay equal and the first is taken by both players.
    return np.asarray(np.where(refused_A, -np.inf, gain_A2.prod(axis=1).round(9)))


@cache
def _shares(actions: int) -> NDArray[np.float64]:
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
    rounds_J = np.rint(share_J * CYCLE).astype(int)
    used = np.flatnonzero(rounds_J)
    first = rounds_J[used[0]]
    order = [
        used[0] if (t + 1) * first // CYCLE > t * first // CYCLE else used[-1] for t in range(CYCLE)
    ]
    return tuple((int(cell) // actions, int(cell) % actions) for cell in order)


class Plan(NamedTuple):
    """Plan of an episode against N partners."""

    action_NTC: NDArray[np.int8]
    """Best action by round and situation."""
    value_N: NDArray[np.float64]
    """Mean reward per round."""


def best_plan(
    reply_NCK: NDArray[np.float64],
    payoff_NKK: NDArray[np.float64],
    rounds: int,
    doubt_NC: NDArray[np.float64] | None = None,
) -> Plan:
    """Return the best plan against partners who play `reply_NCK[n, situation]`.

    Backward induction over situations (start, then 1 + K * own + other). With `doubt_NC` the
    plan is optimistic: the best reply has at least that probability, as in interval estimation
    (Strehl and Littman 2008, eq. 3.2).
    """
    runs, situations = reply_NCK.shape[:2]
    action_NTC = np.empty((runs, rounds, situations), np.int8)
    ahead_NC = np.zeros((runs, situations))  # value of the rounds to come
    for t in reversed(range(rounds)):
        worth_NCK = _worth(reply_NCK, payoff_NKK, ahead_NC, doubt_NC)
        action_NTC[:, t] = worth_NCK.argmax(axis=2)
        ahead_NC = worth_NCK.max(axis=2)
    return Plan(action_NTC, ahead_NC[:, 0] / rounds)


def plan_value(
    action_NTC: NDArray[np.int8],
    reply_NCK: NDArray[np.float64],
    payoff_NKK: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return the mean reward per round of a plan: (N,)."""
    rounds = action_NTC.shape[1]
    runs, situations, actions = reply_NCK.shape
    ahead_NC = np.zeros((runs, situations))
    first_NC = actions * np.arange(runs * situations).reshape(runs, situations)
    for t in reversed(range(rounds)):
        worth_NCK = _worth(reply_NCK, payoff_NKK, ahead_NC, None)
        ahead_NC = worth_NCK.ravel()[first_NC + action_NTC[:, t]]
    return np.asarray(ahead_NC[:, 0] / rounds)


def shares_met(reply_NC: NDArray[np.float64], rounds: int) -> NDArray[np.float64]:
    """Return the partner's share of the action 1 under each constant own action: (N, 2)."""
    chance_N2 = np.repeat(reply_NC[:, :1], 2, axis=1)
    total_N2 = np.zeros_like(chance_N2)
    after_N22 = reply_NC[:, 1:].reshape(-1, 2, 2)  # own, other
    for _ in range(rounds):
        total_N2 += chance_N2
        chance_N2 = after_N22[:, :, 0] + chance_N2 * (after_N22[:, :, 1] - after_N22[:, :, 0])
    return np.asarray(total_N2 / rounds)


def _worth(
    reply_NCK: NDArray[np.float64],
    payoff_NKK: NDArray[np.float64],
    ahead_NC: NDArray[np.float64],
    doubt_NC: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    runs, _, actions = reply_NCK.shape
    # Playing `own` against `other` pays, and leads to the situation (own, other).
    worth_NKK = payoff_NKK + ahead_NC[:, 1:].reshape(runs, actions, actions)
    worth_NCK = reply_NCK[:, :, :1] * worth_NKK[:, None, :, 0]
    for other in range(1, actions):
        worth_NCK = worth_NCK + reply_NCK[:, :, other, None] * worth_NKK[:, None, :, other]
    if doubt_NC is not None:
        best_N1K = worth_NKK.max(axis=2)[:, None]
        worth_NCK = worth_NCK + doubt_NC[:, :, None] * (best_N1K - worth_NCK)
    return worth_NCK
