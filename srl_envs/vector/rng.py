"""Batched random numbers: one NumPy generator per environment, drawn from in blocks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from srl_envs.seeding import RandomSource

BLOCK = 256  # numbers drawn at a time for one environment: more saves nothing
TOGETHER = 32  # environments whose numbers are laid out at a time, while they are in the cache
HELD = 1 << 22  # numbers held for all environments together, 8 bytes each

Draw = Callable[..., object]
"""A method of np.random.Generator that fills an array, `out`, such as `standard_normal`."""


class BatchedRng:
    """One generator per environment, whose numbers are returned in order.

    The numbers of an environment depend neither on the others nor on the size of the blocks.
    """

    def __init__(self, num_envs: int, num_agents: int, draw: Draw) -> None:
        self.sources = [RandomSource() for _ in range(num_envs)]
        self._draw = draw
        rounds = max(1, min(BLOCK, HELD // num_envs) // num_agents)
        self._block = np.empty((rounds, num_envs, num_agents))
        self._used = np.full(num_envs, rounds)  # rounds of each environment's block
        self._env_ids = np.arange(num_envs)

    def reseed(self, env_ids: Sequence[int], seeds: Sequence[int | None]) -> None:
        """Seed generators anew; a seed of None keeps the old one."""
        for i, seed in zip(env_ids, seeds, strict=True):
            if seed is not None:
                self.sources[i].np_random = np.random.default_rng(seed)
                self._used[i] = len(self._block)

    def next(self, idle: np.ndarray) -> np.ndarray:
        """Return the next numbers (N, A), not to be changed; `idle` (N,) ones draw none."""
        rounds, _, num_agents = self._block.shape
        spent = (self._used == rounds).nonzero()[0]
        for start in range(0, len(spent), TOGETHER):
            some = spent[start : start + TOGETHER]
            drawn = np.empty((len(some), rounds, num_agents))
            for i, out in zip(some.tolist(), drawn, strict=True):
                self._draw(self.sources[i].np_random, out=out)
            self._block[:, some] = drawn.swapaxes(0, 1)
        self._used[spent] = 0
        first = self._used[0]
        if (self._used == first).all():  # as good as always, and far quicker to look up
            numbers: np.ndarray = self._block[first]
        else:
            numbers = self._block[self._used, self._env_ids]
        self._used += ~idle
        return numbers
