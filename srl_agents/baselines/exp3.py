"""EXP3: exponential weights for bandits whose rewards an adversary chooses."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from srl_agents.baselines.simple_pg import Uniforms, drawn


class EXP3Runs:
    """N independent EXP3 learners (Auer, Cesa-Bianchi, Freund and Schapire 2002, fig. 1).

    Rewards are within [0, 1], up to noise, and come at the end of an episode, so the weights move
    then by the estimates of all its rounds. `exploration` is the share of uniform play, gamma.
    """

    def __init__(
        self,
        seeds: Sequence[int | np.random.SeedSequence],
        *,
        actions: int = 2,
        exploration: float = 0.1,
    ) -> None:
        if not 0.0 < exploration <= 1.0:
            raise ValueError(f"exploration must be above 0 and at most 1, got {exploration}")
        self._exploration, self._row = exploration, np.arange(len(seeds))
        self._logits_NK = np.zeros((len(seeds), actions))
        self._uniforms = Uniforms(seeds)
        self._chance_NK = self._chances()

    def act(self) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
        """Actions and their chances: (N,) each."""
        action_N = drawn(self._chance_NK, self._uniforms.take(1)[0]).astype(np.int8)
        return action_N, self._chance_NK[self._row, action_N]

    def observe_opponent(self, other_N: NDArray[np.int8]) -> None:
        """Nothing: this learner does not look at the other."""

    def update(self, own_NT: NDArray[np.int8], reward_NT: NDArray[np.float64]) -> None:
        """Move the weights by an episode of each run."""
        actions = self._logits_NK.shape[1]
        for action in range(actions):
            reward_N = (reward_NT * (own_NT == action)).sum(axis=1)
            estimate_N = reward_N / self._chance_NK[:, action]
            self._logits_NK[:, action] += self._exploration / actions * estimate_N
        self._chance_NK = self._chances()

    def _chances(self) -> NDArray[np.float64]:
        weight_NK = np.exp(self._logits_NK - self._logits_NK.max(axis=1, keepdims=True))
        greedy_NK = weight_NK / weight_NK.sum(axis=1, keepdims=True)
        even = self._exploration / weight_NK.shape[1]
        return np.asarray((1.0 - self._exploration) * greedy_NK + even)
