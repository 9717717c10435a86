"""Best response over one episode to an opponent with memory one, exact and optimistic."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Plan(NamedTuple):
    """What to do in an episode against N partners, and what it is worth."""

    action_NTC: NDArray[np.int8]
    """The best action by round and situation."""
    value_N: NDArray[np.float64]
    """Mean reward per round under it."""


def best_plan(
    reply_NCK: NDArray[np.float64],
    payoff_NKK: NDArray[np.float64],
    rounds: int,
    doubt_NC: NDArray[np.float64] | None = None,
) -> Plan:
    """The plan that earns most against partners who play `reply_NCK[n, situation]`.

    `payoff_NKK[n, own, other]` is the mean reward. Situations are the episode's start and then
    1 + K * own + other. Exact, by backward induction. With `doubt_NC` it is optimistic: in each
    situation the reply that is best for us is given that much chance beforehand, as in interval
    estimation (Strehl and Littman 2008, eq. 3.2) and, where the doubt is 1, in R-max.
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
    """Mean reward per round of a given plan against these partners: (N,)."""
    rounds = action_NTC.shape[1]
    runs, situations, actions = reply_NCK.shape
    ahead_NC = np.zeros((runs, situations))
    first_NC = actions * np.arange(runs * situations).reshape(runs, situations)
    for t in reversed(range(rounds)):
        worth_NCK = _worth(reply_NCK, payoff_NKK, ahead_NC, None)
        ahead_NC = worth_NCK.ravel()[first_NC + action_NTC[:, t]]
    return np.asarray(ahead_NC[:, 0] / rounds)


def shares_met(reply_NC: NDArray[np.float64], rounds: int) -> NDArray[np.float64]:
    """Share of an episode's rounds with a partner who plays 1 if we always play 0, or 1: (N, 2).

    For two actions; `reply_NC` are the partner's chances of playing 1.
    """
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
    """Value of each own action in each situation, this round's reward and what it leads to."""
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
