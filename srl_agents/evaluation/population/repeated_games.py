"""Exact exploitability of memory-one strategies in repeated games of two."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from srl_agents.evaluation.matrix_game.values import best_response
from srl_agents.scripted.memory_one import mirrored


class RepeatedValue(NamedTuple):
    """Mean rewards per round."""

    value: float
    """What the strategy earns with itself."""
    best: float
    """What the best response to it earns with it."""

    @property
    def gain(self) -> float:
        """How much better the best response does than the strategy itself; never below 0."""
        return self.best - self.value


def exploit_memory_one(
    payoff_22: ArrayLike, chances_C: Sequence[float], rounds: int
) -> RepeatedValue:
    """What can be gained on a partner that looks one round back, over an episode of `rounds`.

    `payoff_22[own, other]` is the mean reward, actions being 1 for cooperating and 0 for competing;
    `chances_C` the partner's chances of cooperating (srl_agents.scripted.MemoryOne.chances). By
    backward induction, and by following the chances of all situations. Raises ValueError for less
    than one round.
    """
    if rounds < 1:
        raise ValueError(f"rounds is {rounds}: give 1 or more")
    payoff = np.asarray(payoff_22, dtype=np.float64)
    own_C = np.asarray(chances_C, dtype=np.float64)
    other_C = mirrored(chances_C)
    situation_C = np.array([1.0, 0.0, 0.0, 0.0, 0.0])  # the first round
    total = 0.0
    for _ in range(rounds):
        mixed_CO2 = np.stack([1 - own_C, own_C], axis=1)[:, :, None]
        mixed_C12 = np.stack([1 - other_C, other_C], axis=1)[:, None, :]
        joint_22 = np.einsum("c,cij->ij", situation_C, mixed_CO2 * mixed_C12)
        total += float((joint_22 * payoff).sum())
        situation_C = np.concatenate([[0.0], joint_22.reshape(4)])
    return RepeatedValue(total / rounds, best_response(payoff, chances_C, rounds))
