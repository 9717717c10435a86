"""Base class of games with rules on arrays: rounds, batched random numbers and infos."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from srl_envs.games.base import NOISE_LIMIT, SimultaneousGame
from srl_envs.seeding import RandomSource
from srl_envs.vector.vector_env import Outcome, VectorGame, broadcast_to_agents, only

Played = tuple[np.ndarray, np.ndarray | None]
"""Rewards (N, A) and marks (N,) of episodes that terminate, or None for no marks."""

BLOCK = 256  # numbers drawn at a time per environment; more saves no time
TOGETHER = 32  # environments whose numbers are copied at a time, so that they are in the cache
HELD = 1 << 22  # limit of numbers (8 bytes each) in memory, for all environments together


class BatchedRng:
    """Standard normal random numbers for N environments of A agents, one generator per environment.

    The numbers of an environment do not depend on other environments.
    """

    def __init__(self, num_envs: int, num_agents: int) -> None:
        self.sources = [RandomSource() for _ in range(num_envs)]
        rounds = max(1, min(BLOCK, HELD // num_envs) // num_agents)
        self._block = np.empty((rounds, num_envs, num_agents))
        self._used = np.full(num_envs, rounds)  # number of used rounds in each block
        self._env_ids = np.arange(num_envs)

    def reseed(self, env_ids: Sequence[int], seeds: Sequence[int | None]) -> None:
        """Seed the generators at the indices `env_ids`; a seed of None keeps the generator."""
        for i, seed in zip(env_ids, seeds, strict=True):
            if seed is not None:
                self.sources[i].np_random = np.random.default_rng(seed)
                self._used[i] = len(self._block)

    def next(self, idle: np.ndarray) -> np.ndarray:
        """Return the next standard normals (N, A), not to be changed or kept.

        Environments marked in `idle`, bool (N,), get the same numbers at the next call.
        """
        rounds, _, num_agents = self._block.shape
        spent = (self._used == rounds).nonzero()[0]
        for start in range(0, len(spent), TOGETHER):
            some = spent[start : start + TOGETHER]
            drawn = np.empty((len(some), rounds, num_agents))
            for i, out in zip(some.tolist(), drawn, strict=True):
                self.sources[i].np_random.standard_normal(out=out)
            self._block[:, some] = drawn.swapaxes(0, 1)
        self._used[spent] = 0
        first = self._used[0]
        if (self._used == first).all():  # the usual case, which is much faster
            numbers: np.ndarray = self._block[first]
        else:
            numbers = self._block[self._used, self._env_ids]
        self._used += ~idle
        return numbers


class ArrayGame(VectorGame):
    """Base class of vectorized games with rules on arrays.

    A subclass defines `play_round`, `round_infos`, and `begin` or `_first`. `game` is a single
    environment with the same rules.
    """

    _first: np.ndarray
    """First observations (A, features) of every episode."""

    def __init__(self, game: SimultaneousGame, num_envs: int) -> None:
        super().__init__(game, num_envs)
        self._game = game
        self.rounds = game.rounds
        self.rng = BatchedRng(self.num_envs, self.num_agents)
        self._played = np.zeros(self.num_envs, np.int64)
        self._episode = np.full(self.num_envs, -1)

    @classmethod
    def fits(cls, game: Any) -> bool:
        """Return True if `game`, a single environment, has these rules; by default always."""
        return True

    # Defined by subclasses.

    def begin(self, env_ids: np.ndarray, options: Mapping[str, Any]) -> None:
        """Start episodes at the indices `env_ids`: write their first `_observations`.

        The default writes `_first`. `options` are those of `reset`, empty for an automatic restart.
        """
        self._observations[env_ids] = self._first

    def play_round(self, chosen: np.ndarray, over: np.ndarray, resting: np.ndarray) -> Played:
        """Play one round with actions `chosen` (N, A); write `_observations`.

        `over` (N,) marks environments in their last round, `resting` (N,) environments whose
        results are ignored. Returns rewards (N, A) and marks (N,) of terminated episodes, or
        None without any.
        """
        raise NotImplementedError

    def round_infos(self) -> dict[str, Any]:
        """Return the infos of the last round; called after resets, too.

        Values are new arrays (N, A, ...), dicts of arrays, or pairs of an array and marks (N,) of
        the environments that have the key.
        """
        raise NotImplementedError

    def masks(self) -> np.ndarray:
        """Return the masks of legal actions, a new int8 array (N, A, actions), by default all 1."""
        return np.ones((*self._shape, int(self.single_action_space.n)), np.int8)

    def noise(self, idle: np.ndarray) -> np.ndarray | float:
        """Return normal noise (N, A), clipped at 8 `noise_std`; 0.0 if this is 0.

        Environments marked in `idle` (N,) get the same numbers at the next call.
        """
        if not self._game.noise_std:
            return 0.0
        noise = self.rng.next(idle).clip(-NOISE_LIMIT, NOISE_LIMIT)
        noise *= self._game.noise_std
        return noise

    def show_time(self, column: np.ndarray) -> None:
        """Write rounds played / max_cycles into `column` (N, A) of the observations."""
        times = self._played / self.rounds
        if (times == times[0]).all():  # the usual case, which is three times as fast
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
        # An episode that terminates in its last round is not truncated.
        return rewards, self.per_agent(finished), self.per_agent(over & ~finished)

    def _report(self, fresh: np.ndarray) -> dict[str, Any]:
        infos = _with_marks(self.round_infos(), self._shape)
        if fresh.any():
            infos = only(infos, ~fresh)
        return {**infos, **_with_marks({"action_mask": self.masks()}, self._shape)}


def _with_marks(infos: Mapping[str, Any], shape: tuple[int, int]) -> dict[str, Any]:
    marked: dict[str, Any] = {}
    for key, value in infos.items():
        has = np.ones(shape, bool)
        if isinstance(value, tuple):
            value, having = value
            broadcast_to_agents(has, having)
        marked[key] = _with_marks(value, shape) if isinstance(value, dict) else value
        marked[f"_{key}"] = has
    return marked
