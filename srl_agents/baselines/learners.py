"""Learners of repeated matrix games: policy gradient, EXP3 and fictitious play."""

from __future__ import annotations

from collections.abc import Sequence
from math import log

import numpy as np
from numpy.typing import NDArray

from srl_agents.baselines.opponent_model import PayoffTable
from srl_agents.baselines.solutions import best_plan
from srl_agents.scripted.memory_one import START, situations

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
        action_N = drawn(self._chance_NK, self._uniforms.take(1)[0]).astype(np.int8)
        return action_N, self._chance_NK[self._row, action_N]

    def observe_opponent(self, other_N: NDArray[np.int8]) -> None:
        """Ignore the opponent."""

    def update(self, own_NT: NDArray[np.int8], reward_NT: NDArray[np.float64]) -> None:
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


class FictitiousPlayRuns:
    """N independent players of the best response to the frequencies seen (Brown 1951).

    Frequencies are counted for every outcome of the round before (each action once beforehand), and
    the response is exact over the episode. The first episode is played at random; nothing is
    explored after it.
    """

    def __init__(self, seeds: Sequence[int | np.random.SeedSequence], *, actions: int = 2) -> None:
        runs = len(seeds)
        self._actions, self._row = actions, np.arange(runs)
        self._uniforms = Uniforms(seeds)
        self._payoffs = PayoffTable(runs, actions)
        self._count_NCK = np.ones((runs, 1 + actions * actions, actions))
        self._plan_NTC: NDArray[np.int8] | None = None
        self._place_N = np.full(runs, START)
        self._own_N = np.zeros(runs, np.int8)
        self._other: list[NDArray[np.int8]] = []

    def act(self) -> tuple[NDArray[np.int8], NDArray[np.float64]]:
        if self._plan_NTC is None:
            drawn_N = self._uniforms.take(1)[0] * self._actions
            self._own_N = drawn_N.astype(np.int8)
            return self._own_N, np.full(self._row.size, 1.0 / self._actions)
        t = min(len(self._other), self._plan_NTC.shape[1] - 1)
        self._own_N = self._plan_NTC[self._row, t, self._place_N]
        return self._own_N, np.ones(self._row.size)

    def observe_opponent(self, other_N: NDArray[np.int8]) -> None:
        self._other.append(other_N)
        self._place_N = 1 + self._actions * self._own_N.astype(int) + other_N

    def update(self, own_NT: NDArray[np.int8], reward_NT: NDArray[np.float64]) -> None:
        other_NT = np.stack(self._other, axis=1)
        self._other, self._place_N = [], np.full_like(self._place_N, START)
        self._payoffs.add(own_NT, other_NT, reward_NT)
        place_NT = situations(own_NT, other_NT, self._actions)
        np.add.at(self._count_NCK, (self._row[:, None], place_NT, other_NT), 1.0)
        reply_NCK = self._count_NCK / self._count_NCK.sum(axis=2, keepdims=True)
        plan = best_plan(reply_NCK, self._payoffs.mean(), own_NT.shape[1])
        self._plan_NTC = plan.action_NTC
