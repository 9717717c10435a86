"""The random numbers of many environments, each from a stream of its own."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

HELD = 1 << 22  # numbers that are held ready, 8 bytes each
MOST = 1024  # of one environment: more saves nothing
TOGETHER = 32  # environments whose numbers are turned at a time, so that they stay in the cache


class Draws:
    """`seats` numbers a round for every environment, from that environment's own generator.

    `fill(generator, out)` draws into a float64 vector; `finish` changes a block of such in place.
    """

    def __init__(
        self,
        num_envs: int,
        seats: int,
        fill: Callable[[np.random.Generator, np.ndarray], object],
        finish: Callable[[np.ndarray], object] | None = None,
    ) -> None:
        self._fill, self._finish = fill, finish
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        rounds = max(1, min(HELD // num_envs, MOST) // seats)
        self._block = np.empty((rounds, seats, num_envs))  # so laid out, it is filled soonest
        self._every = np.arange(num_envs)
        # Rounds of the block that are used up: of each environment, or one number for all.
        self._used = np.full(num_envs, rounds)
        self._used_by_all: int | None = rounds

    def restart(self, who: Sequence[int], seeds: Sequence[int | None]) -> None:
        """Streams from new seeds; None goes on with the old one."""
        seeded = [(i, seed) for i, seed in zip(who, seeds, strict=True) if seed is not None]
        if not seeded:
            return
        for i, seed in seeded:
            self._generators[i] = np.random.default_rng(seed)
        if len(seeded) == len(self._every):
            self._used_by_all = len(self._block)
        else:
            self._each()[[i for i, _ in seeded]] = len(self._block)
            self._used_by_all = None

    def take(self, idle: np.ndarray | None) -> np.ndarray:
        """The next numbers (N, seats), not to be changed; `idle` environments keep theirs."""
        if idle is not None:
            if idle.all():
                return np.asarray(self._block[0].T)
            self._each()
            self._used_by_all = None
        if self._used_by_all is not None:
            if self._used_by_all == len(self._block):
                self._refill(self._every)
                self._used_by_all = 0
            self._used_by_all += 1
            return np.asarray(self._block[self._used_by_all - 1].T)
        used = self._used
        empty = (used == len(self._block)).nonzero()[0]
        if len(empty):
            self._refill(empty)
            used[empty] = 0
        taken: np.ndarray = self._block[used, :, self._every]
        used += 1
        if idle is not None:
            used[idle] -= 1
        if (used == used[0]).all():
            self._used_by_all = int(used[0])
        return taken

    def _each(self) -> np.ndarray:
        if self._used_by_all is not None:
            self._used[:] = self._used_by_all
        return self._used

    def _refill(self, who: np.ndarray) -> None:
        rounds, seats, num_envs = self._block.shape
        columns = self._block.reshape(rounds * seats, num_envs)
        drawn = np.empty((min(TOGETHER, len(who)), len(columns)))
        for start in range(0, len(who), TOGETHER):
            some = who[start : start + TOGETHER]
            part = drawn[: len(some)]
            for out, i in zip(part, some.tolist(), strict=True):
                generator = self._generators[i]
                if generator is None:
                    generator = self._generators[i] = np.random.default_rng()
                self._fill(generator, out)
            if self._finish is not None:
                self._finish(part)
            if len(who) == num_envs:
                columns[:, start : start + len(some)] = part.T
            else:
                columns[:, some] = part.T
