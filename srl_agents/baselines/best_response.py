"""Best response over one episode to an opponent with memory one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from srl_agents.scripted.memory_one import SITUATIONS


class Plan(NamedTuple):
    """What to do in an episode against N partners, and what it is worth."""

    action_NTC: NDArray[np.int8]
    """The best action by round and situation."""
    value_N: NDArray[np.float64]
    """Mean reward per round under it."""


def best_plan(reply_NC: NDArray[np.float64], payoff_N22: NDArray[np.float64], rounds: int) -> Plan:
    """The plan that earns most against partners who cooperate with chance `reply_NC[n, situation]`.

    `payoff_N22[n, own, other]` is the mean reward. Exact, by backward induction.
    """
    runs = len(reply_NC)
    action_NTC = np.empty((runs, rounds, SITUATIONS), np.int8)
    ahead_NC = np.zeros((runs, SITUATIONS))  # value of the rounds to come
    for t in reversed(range(rounds)):
        # Playing `own` against `other` pays, and leads to the situation (own, other).
        worth_N22 = payoff_N22 + ahead_NC[:, 1:].reshape(runs, 2, 2)
        gain_N2 = worth_N22[:, :, 1] - worth_N22[:, :, 0]
        worth_NC2 = worth_N22[:, None, :, 0] + reply_NC[:, :, None] * gain_N2[:, None]
        action_NTC[:, t] = worth_NC2[:, :, 1] >= worth_NC2[:, :, 0]
        ahead_NC = worth_NC2.max(axis=2)
    return Plan(action_NTC, ahead_NC[:, 0] / rounds)


def shares_met(reply_NC: NDArray[np.float64], rounds: int) -> NDArray[np.float64]:
    """Share of an episode's rounds with a cooperating partner if we always play 0, or 1: (N, 2)."""
    chance_N2 = np.repeat(reply_NC[:, :1], 2, axis=1)
    total_N2 = np.zeros_like(chance_N2)
    after_N22 = reply_NC[:, 1:].reshape(-1, 2, 2)  # own, other
    for _ in range(rounds):
        total_N2 += chance_N2
        chance_N2 = after_N22[:, :, 0] + chance_N2 * (after_N22[:, :, 1] - after_N22[:, :, 0])
    return np.asarray(total_N2 / rounds)
