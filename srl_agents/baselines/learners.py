"""Policy gradient for repeated matrix games, and streams of uniform numbers."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from srl_agents.arrays import Actions, Floats

_BLOCK = 1024  # numbers drawn per call of the generator; the stream does not depend on it


class Uniforms:
    """Streams of uniform random numbers in [0, 1), one generator per seed."""

    def __init__(self, seeds: Sequence[int | np.random.SeedSequence]) -> None:
        self._generators = [np.random.default_rng(seed) for seed in seeds]
        self._drawn_KN = np.empty((0, len(seeds)))

    def take(self, rounds: int) -> Floats:
        """Draw the next `rounds` numbers of each of the N streams: (rounds, N)."""
        while len(self._drawn_KN) < rounds:
            drawn = [generator.random(_BLOCK) for generator in self._generators]
            self._drawn_KN = np.concatenate([self._drawn_KN, np.stack(drawn, axis=1)])
        taken, self._drawn_KN = self._drawn_KN[:rounds], self._drawn_KN[rounds:]
        return taken


def drawn(chance_NK: Floats, uniform_N: Floats) -> NDArray[np.int64]:
    """Return the actions (N,) drawn from N distributions over K actions, by inverse transform.

    `uniform_N` contains one uniform random number in [0, 1) per distribution.
    """
    return np.asarray((uniform_N[:, None] > chance_NK.cumsum(axis=1)[:, :-1]).sum(axis=1))


class SimplePGRuns:
    """N independent SimplePG learners in array form, one per seed; ValueError unless `lr` > 0."""

    def __init__(self, seeds: Sequence[int | np.random.SeedSequence], *, lr: float = 0.05) -> None:
        if not lr > 0:
            raise ValueError(f"lr must be above 0, got {lr}")
        self.lr = lr
        self.theta = np.zeros(len(seeds))
        """Logits of cooperation, (N,)."""
        self._uniforms = Uniforms(seeds)

    def act(self) -> tuple[Actions, Floats]:
        chance = self.chance()
        return (self._uniforms.take(1)[0] < chance).astype(np.int8), chance

    def observe_opponent(self, other_N: Actions) -> None:
        """Do nothing, because the policy does not depend on the opponent."""

    def update(self, own_NT: Actions, reward_NT: Floats) -> None:
        advantage_NT = reward_NT - reward_NT.mean(axis=1, keepdims=True)
        score_NT = own_NT - self.chance()[:, None]
        self.theta = self.theta + self.lr * (score_NT * advantage_NT).mean(axis=1)

    def chance(self) -> Floats:
        return np.asarray(np.exp(-np.logaddexp(0.0, -self.theta)))


class SimplePG:
    """REINFORCE (Williams 1992) with the batch's mean reward as its baseline, on one logit.

    `theta` is the logit of p, the probability of action 1, and starts at 0. An update adds
    lr * mean((action - p) * (reward - mean reward)), with means over the rounds.

    Args:
        lr: Learning rate.
        seed: Seed of the actions.

    Raises:
        ValueError: `lr` is not above 0.
    """

    def __init__(self, lr: float = 0.05, *, seed: int = 0) -> None:
        self._runs = SimplePGRuns([seed], lr=lr)

    @property
    def theta(self) -> float:
        """Logit of the probability of action 1 (cooperate)."""
        return float(self._runs.theta[0])

    @property
    def chance(self) -> float:
        """Probability of action 1 (cooperate)."""
        return float(self._runs.chance()[0])

    def act(self) -> tuple[int, float]:
        """Draw an action, 1 (cooperate) or 0; return it and its natural log-probability."""
        [action], [chance] = self._runs.act()
        return int(action), log(chance if action else 1.0 - chance)

    def update(self, trajectories: Sequence[tuple[int, float, float]]) -> None:
        """Change `theta` by one gradient step on (own action, log-probability, reward) per round.

        The log-probability is ignored. Raises ValueError if there are no rounds.
        """
        if not trajectories:
            raise ValueError("update() needs at least one (action, logprob, reward)")
        actions, _, rewards = zip(*trajectories, strict=True)
        self._runs.update(np.array([actions], np.int8), np.array([rewards], float))
