"""Solutions of matrix games: maximin strategies, fair agreements and best responses."""

from __future__ import annotations

from functools import cache
from itertools import combinations
from typing import NamedTuple

import numpy as np

from srl_agents.arrays import Actions, Floats


def maximin(payoff_NKK: Floats) -> tuple[Floats, Floats]:
    """Return the maximin strategies (N, K) and values (N,) of N payoff tables [own, other].

    The method is exact and takes exponential time in K (Shapley and Snow 1950).
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


def _indifferent(block_NSS: Floats) -> Floats:
    runs, size = block_NSS.shape[:2]
    # Unknowns: the probabilities. All columns pay as the last one; the probabilities sum to 1.
    equations = np.ones((runs, size, size))
    equations[:, :-1] = (block_NSS[:, :, :-1] - block_NSS[:, :, -1:]).transpose(0, 2, 1)
    right = np.zeros((runs, size, 1))
    right[:, -1] = 1.0
    solvable_N = np.abs(np.linalg.det(equations)) > 1e-12
    equations[~solvable_N] = np.eye(size)
    mixed_NS = np.linalg.solve(equations, right)[:, :, 0]
    valid_N = solvable_N & (mixed_NS >= 0.0).all(axis=1)
    return np.asarray(np.where(valid_N[:, None], mixed_NS, np.eye(size)[0]))


CYCLE = 24
"""Length of an agreement in rounds; mixtures of two joint actions are multiples of 1/24."""
SLACK = 0.01
"""Share of a player's range of payoffs that it concedes below its maximin value."""

Cell = tuple[int, int]
"""Joint action (row player's action, column player's action)."""


class Agreement(NamedTuple):
    """Cycle of joint actions, one per round, and the mean payoff per round of each player."""

    cells: tuple[Cell, ...]
    row: float
    column: float


def fair_cycle(row_KK: Floats, column_KK: Floats) -> Agreement:
    """Return the Nash bargaining solution among cycles of CYCLE rounds.

    A cycle contains one or two joint actions. The solution maximizes `product_of_gains` (Nash 1950;
    Littman and Stone 2005). If it is -inf for all cycles, both players play action 0. The tables
    are square and indexed [row player's action, column player's].
    """
    actions = len(row_KK)
    weight_AJ = _shares(actions)
    value_A2 = weight_AJ @ np.stack([row_KK.ravel(), column_KK.ravel()], axis=1)
    _, sure_2 = maximin(np.stack([row_KK, column_KK.T]))
    best = int(product_of_gains(value_A2, sure_2, row_KK, column_KK).argmax())
    return Agreement(_cells(weight_AJ[best], actions), *map(float, value_A2[best]))


def product_of_gains(value_A2: Floats, sure_2: Floats, row_KK: Floats, column_KK: Floats) -> Floats:
    """Return the product of both players' gains (A,), for A pairs of payoffs (row, column).

    A gain is (payoff - maximin value) / range of the player's table + SLACK; `sure_2` contains the
    maximin values (row, column). The product has 9 decimals. A negative gain makes it -inf.
    """
    range_2 = np.maximum([np.ptp(row_KK), np.ptp(column_KK)], 1e-12)
    gain_A2 = (value_A2 - sure_2) / range_2 + SLACK
    refused_A = (gain_A2 < 0.0).any(axis=1)
    # Rounding keeps equal bargains equal, so that both players choose the first.
    return np.asarray(np.where(refused_A, -np.inf, gain_A2.prod(axis=1).round(9)))


@cache
def _shares(actions: int) -> Floats:
    cells = actions * actions
    rows = list(np.eye(cells))
    for first in range(cells):
        for second in range(first + 1, cells):
            for rounds in range(1, CYCLE):
                share = np.zeros(cells)
                share[first], share[second] = rounds / CYCLE, 1.0 - rounds / CYCLE
                rows.append(share)
    return np.array(rows)


def _cells(share_J: Floats, actions: int) -> tuple[Cell, ...]:
    rounds_J = np.rint(share_J * CYCLE).astype(int)
    used = np.flatnonzero(rounds_J)
    first = rounds_J[used[0]]
    order = [
        used[0] if (t + 1) * first // CYCLE > t * first // CYCLE else used[-1] for t in range(CYCLE)
    ]
    return tuple((int(cell) // actions, int(cell) % actions) for cell in order)


class Plan(NamedTuple):
    """Best actions of an episode against N partners, and their expected rewards."""

    action_NTC: Actions
    """Best action by partner, round and situation (see `best_plan`)."""
    value_N: Floats
    """Expected reward per round, by partner."""


def best_plan(
    reply_NCK: Floats, payoff_NKK: Floats, rounds: int, doubt_NC: Floats | None = None
) -> Plan:
    """Return the best Plan of `rounds` rounds against known partners, by backward induction.

    `reply_NCK` are the partners' action distributions per situation: 0 is the start of an episode,
    1 + K * own + other follows a joint action. Payoffs are [own, other]. `doubt_NC` makes the plan
    and its value optimistic: with these probabilities, the reply is the best one for the agent, as
    in interval estimation (Strehl and Littman 2008, eq. 3.2).
    """
    runs, situations = reply_NCK.shape[:2]
    action_NTC = np.empty((runs, rounds, situations), np.int8)
    ahead_NC = np.zeros((runs, situations))  # value of the remaining rounds
    for t in reversed(range(rounds)):
        worth_NCK = _worth(reply_NCK, payoff_NKK, ahead_NC, doubt_NC)
        action_NTC[:, t] = worth_NCK.argmax(axis=2)
        ahead_NC = worth_NCK.max(axis=2)
    return Plan(action_NTC, ahead_NC[:, 0] / rounds)


def plan_value(action_NTC: Actions, reply_NCK: Floats, payoff_NKK: Floats) -> Floats:
    """Return the expected reward per round (N,) of plans (N, T, C) against known partners.

    `reply_NCK` has the situations of `best_plan`; payoffs are indexed [own, other] action.
    """
    rounds = action_NTC.shape[1]
    ahead_NC = np.zeros(reply_NCK.shape[:2])
    for t in reversed(range(rounds)):
        worth_NCK = _worth(reply_NCK, payoff_NKK, ahead_NC, None)
        ahead_NC = np.take_along_axis(worth_NCK, action_NTC[:, t, :, None], axis=2)[:, :, 0]
    return np.asarray(ahead_NC[:, 0] / rounds)


def shares_met(reply_NC: Floats, rounds: int) -> Floats:
    """Return the partner's expected rate of action 1 against a constant agent: (N, 2).

    The columns are the agent's action, 0 or 1. The rate is the mean over an episode of `rounds`
    rounds. `reply_NC` (N, 5) is the probability of action 1 in the situations of `best_plan`.
    """
    chance_N2 = np.repeat(reply_NC[:, :1], 2, axis=1)
    total_N2 = np.zeros_like(chance_N2)
    after_N22 = reply_NC[:, 1:].reshape(-1, 2, 2)  # own, other
    for _ in range(rounds):
        total_N2 += chance_N2
        chance_N2 = after_N22[:, :, 0] + chance_N2 * (after_N22[:, :, 1] - after_N22[:, :, 0])
    return np.asarray(total_N2 / rounds)


def _worth(
    reply_NCK: Floats, payoff_NKK: Floats, ahead_NC: Floats, doubt_NC: Floats | None
) -> Floats:
    runs, _, actions = reply_NCK.shape
    # A joint action pays its reward and leads to the situation of the same index.
    worth_NKK = payoff_NKK + ahead_NC[:, 1:].reshape(runs, actions, actions)
    worth_NCK = reply_NCK[:, :, :1] * worth_NKK[:, None, :, 0]
    for other in range(1, actions):
        worth_NCK = worth_NCK + reply_NCK[:, :, other, None] * worth_NKK[:, None, :, other]
    if doubt_NC is not None:
        best_N1K = worth_NKK.max(axis=2)[:, None]
        worth_NCK = worth_NCK + doubt_NC[:, :, None] * (best_N1K - worth_NCK)
    return worth_NCK
