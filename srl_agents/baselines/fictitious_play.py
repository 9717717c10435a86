"""Fictitious play with a memory-one model of the opponent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from srl_agents.baselines.best_response import best_plan
from srl_agents.baselines.payoff_estimates import PayoffTable
from srl_agents.baselines.simple_pg import Uniforms
from srl_agents.scripted.memory_one import START, situations


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
        """Actions and their chances: (N,) each."""
        if self._plan_NTC is None:
            drawn_N = self._uniforms.take(1)[0] * self._actions
            self._own_N = drawn_N.astype(np.int8)
            return self._own_N, np.full(self._row.size, 1.0 / self._actions)
        t = min(len(self._other), self._plan_NTC.shape[1] - 1)
        self._own_N = self._plan_NTC[self._row, t, self._place_N]
        return self._own_N, np.ones(self._row.size)

    def observe_opponent(self, other_N: NDArray[np.int8]) -> None:
        """Remember the round."""
        self._other.append(other_N)
        self._place_N = 1 + self._actions * self._own_N.astype(int) + other_N

    def update(self, own_NT: NDArray[np.int8], reward_NT: NDArray[np.float64]) -> None:
        """Count an episode of each run, and plan the next."""
        other_NT = np.stack(self._other, axis=1)
        self._other, self._place_N = [], np.full_like(self._place_N, START)
        self._payoffs.add(own_NT, other_NT, reward_NT)
        place_NT = situations(own_NT, other_NT, self._actions)
        np.add.at(self._count_NCK, (self._row[:, None], place_NT, other_NT), 1.0)
        reply_NCK = self._count_NCK / self._count_NCK.sum(axis=2, keepdims=True)
        plan = best_plan(reply_NCK, self._payoffs.mean(), own_NT.shape[1])
        self._plan_NTC = plan.action_NTC
