"""Base class of games whose rules are written on arrays: rounds, noise and infos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from srl_envs.games.base import NOISE_LIMIT, SimultaneousGame
from srl_envs.vector.rng import BatchedRng, Draw
from srl_envs.vector.vector_env import Outcome, VectorGame, broadcast_to_agents, only

Played = tuple[np.ndarray, np.ndarray | None]
"""Rewards (N, A) and which episodes are decided (N,), None for none."""


class ArrayGame(VectorGame):
    """A game whose rules are written on arrays.

    `game` is the single environment, which has checked the parameters. A game defines `play_round`,
    `round_infos` and `begin` or `_first`. Its random numbers are `rng`'s, drawn by the method
    `draw` of NumPy's generators.
    """

    _first: np.ndarray
    """Observations (A, features) with which every episode begins."""

    def __init__(
        self,
        game: SimultaneousGame,
        num_envs: int,
        draw: Draw = np.random.Generator.standard_normal,
    ) -> None:
        super().__init__(game, num_envs)
        self._game = game
        self.rounds = game.rounds
        self.rng = BatchedRng(self.num_envs, self.num_agents, draw)
        self._played = np.zeros(self.num_envs, np.int64)
        self._episode = np.full(self.num_envs, -1)

    # What a game defines.

    def begin(self, env_ids: np.ndarray, options: Mapping[str, Any]) -> None:
        """Set up episodes in these environments and write their first observations."""
        self._observations[env_ids] = self._first

    def play_round(self, chosen: np.ndarray, over: np.ndarray, resting: np.ndarray) -> Played:
        """Play one round and write the observations.

        `over` (N,) marks environments in their last round, `resting` (N,) those that do not play.
        """
        raise NotImplementedError

    def round_infos(self) -> dict[str, Any]:
        """Return the infos of the last round.

        Values are new arrays (N, A, ...), dicts of arrays, or pairs of an array and a mask (N,) of
        the environments that have it.
        """
        raise NotImplementedError

    def masks(self) -> np.ndarray:
        """Return the legal actions, a new int8 array (N, A, actions)."""
        return np.ones((*self._shape, int(self.single_action_space.n)), np.int8)

    # What a game may use.

    def noise(self, idle: np.ndarray) -> np.ndarray | float:
        """Return clipped normal numbers (N, A) times `noise_std`; `idle` (N,) ones draw none."""
        if not self._game.noise_std:
            return 0.0
        noise = self.rng.next(idle).clip(-NOISE_LIMIT, NOISE_LIMIT)
        noise *= self._game.noise_std
        return noise

    def show_time(self, column: np.ndarray) -> None:
        """Write rounds played / rounds into a column (N, A) of the observations."""
        times = self._played / self.rounds
        if (times == times[0]).all():  # as good as always, and three times as fast to write
            column[...] = times[0]
        else:
            broadcast_to_agents(column, times)

    def _start(
        self, env_ids: np.ndarray, seeds: Sequence[int | None], options: Mapping[str, Any]
    ) -> None:
        self.rng.reseed(env_ids.tolist(), seeds)
        self._played[env_ids] = 0
        self._episode[env_ids] += 1
        self._episode[env_ids[[seed is not None for seed in seeds]]] = 0
        self.begin(env_ids, options)

    def _play(self, chosen: np.ndarray, resting: np.ndarray) -> Outcome:
        self._played += 1
        over = self._played >= self.rounds
        rewards, finished = self.play_round(chosen, over, resting)
        if finished is None:
            return rewards, np.zeros(self._shape, bool), self.per_agent(over)
        # What is decided in the last round did not run out of time.
        return rewards, self.per_agent(finished), self.per_agent(over & ~finished)

    def _report(self, fresh: np.ndarray) -> dict[str, Any]:
        infos = _marked(self.round_infos(), self._shape)
        if fresh.any():
            infos = only(infos, ~fresh)
        return {**infos, **_marked({"action_mask": self.masks()}, self._shape)}


def _marked(infos: Mapping[str, Any], shape: tuple[int, int]) -> dict[str, Any]:
    """Add to each info, under `"_" + key`, a mask (N, A) of the agents that have it."""
    marked: dict[str, Any] = {}
    for key, value in infos.items():
        has = np.ones(shape, bool)
        if isinstance(value, tuple):
            value, having = value
            broadcast_to_agents(has, having)
        marked[key] = _marked(value, shape) if isinstance(value, dict) else value
        marked[f"_{key}"] = has
    return marked
