"""Policy gradient for repeated matrix games, and streams of uniform numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1024  # uniforms drawn at a time: the stream is the same as one by one


class Uniforms:
    """Uniform numbers for N runs, from one generator per run."""

    def __init__(self, seeds: Sequence[int | np.random.SeedSequence]) -> None:
        self._generators = [np.random.default_rng(seed) for seed in seeds]
        self._drawn_KN = np.empty((0, len(seeds)))

    def take(self, rounds: int) -> NDArray[np.float64]:
        """Return the next numbers of every run: (rounds, N)."""
        while len(self._drawn_KN) < rounds:
            drawn = [generator.random(_BLOCK) for generator in self._generators]
            self._drawn_KN = np.concatenate([self._drawn_KN, np.stack(drawn, axis=1)])
        taken, self._drawn_KN = self._drawn_KN[:rounds], self._drawn_KN[rounds:]
        return taken


def drawn(chance_NK: NDArray[np.float64], uniform_N: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return draws from N distributions by uniform numbers: (N,)."""
    return np.asarray((uniform_N[:, None] > chance_NK.cumsum(axis=1)[:, :-1]).sum(axis=1))


class SimplePGRuns:
    """N independent SimplePG learners, one per seed; see SimplePG."""

    def __init__(self, seeds: Sequence[int | np.random.SeedSequence], *, lr: float = 0.05) -> None:
        if not lr > 0:
            raise ValueError(f"lr must be above 0, got {lr}")
        self.lr = lr
        self.theta = np.zeros(len(seeds))
        """Logits: (N,)."""
        self._uniforms = Uniforms(seeds)

    def act(self) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
        chance = self.chance()
        return (self._uniforms.take(1)[0] < chance).astype(np.int8), chance

    def act_ahead(self, rounds: int) -> NDArray[np.int8]:
        return (self._uniforms.take(rounds) < self.chance()).astype(np.int8).T

    def observe_opponent(self, other_N: NDArray[np.int8]) -> None:
        """Ignore the opponent."""

    def update(self, own_NT: NDArray[np.int8], reward_NT: NDArray[np.float64]) -> None:
        advantage_NT = reward_NT - reward_NT.mean(axis=1, keepdims=True)
        score_NT = own_NT - self.chance()[:, None]
        self.theta = self.theta + self.lr * (score_NT * advantage_NT).mean(axis=1)

    def chance(self) -> NDArray[np.float64]:
        """Return the probabilities of cooperation: (N,)."""
        return np.asarray(np.exp(-np.logaddexp(0.0, -self.theta)))


class SimplePG:
    """REINFORCE (Williams 1992) with the batch's mean reward as its baseline, on one logit.

    theta starts at 0 (both actions equally likely) and moves, per update, by
    lr * mean((action - p) * (reward - mean reward)).
    """

    def __init__(self, lr: float = 0.05, *, seed: int = 0) -> None:
        self._runs = SimplePGRuns([seed], lr=lr)

    @property
    def theta(self) -> float:
        """Logit of cooperation."""
        return float(self._runs.theta[0])

    @property
    def chance(self) -> float:
        """Probability of cooperation."""
        return float(self._runs.chance()[0])

    def act(self) -> tuple[int, float]:
        [action], [chance] = self._runs.act()
        return int(action), log(chance if action else 1.0 - chance)

    def update(self, trajectories: Sequence[tuple[int, float, float]]) -> None:
        """Learn from (action, log-probability, reward) triples; raise ValueError for none."""
        if not trajectories:
            raise ValueError("update() needs at least one (action, logprob, reward)")
        actions, _, rewards = zip(*trajectories, strict=True)
        self._runs.update(np.array([actions], np.int8), np.array([rewards], float))
