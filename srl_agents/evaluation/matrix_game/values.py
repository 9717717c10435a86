"""Payoffs of the matrix game, and the best values attainable in it."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from srl_agents.baselines.best_response import best_plan
from srl_agents.scripted.memory_one import distributions, mirrored
from srl_envs.games.coop_compete import CoopCompeteRules

NOISE = 0.05  # standard deviation of every reward, independent for each player and round


def payoffs(coop_level: float, difficulty: float) -> NDArray[np.float64]:
    """Mean reward by (own action, other's), noise left out: coop_compete_v0's "pair" variant.

    Raises EnvConfigError for a level or a difficulty outside [0, 1].
    """
    rules = CoopCompeteRules(2, coop_level, difficulty, variant="pair")
    return np.array(
        [[rules.expected_rewards((own, other))[0] for other in (0, 1)] for own in (0, 1)]
    )


def oracle(payoff_22: NDArray[np.float64]) -> float:
    """Mean reward per round of the better agreement."""
    return float(max(payoff_22[0, 0], payoff_22[1, 1]))


def best_response(
    payoff_22: NDArray[np.float64], opponent_C: Sequence[float], horizon: int
) -> float:
    """Mean reward per round of the best response to a partner that looks one round back; exact.

    `opponent_C` is its chance of cooperating in each situation as it sees them (MemoryOne.chances).
    """
    reply_CK = distributions(mirrored(opponent_C))
    return float(best_plan(reply_CK[None], payoff_22[None], horizon).value_N[0])
