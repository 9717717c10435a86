"""Which maze every environment plays next, made ahead and many at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from srl_envs.games.maze.env import Maze, seating
from srl_envs.games.maze.generator import ATTEMPTS
from srl_envs.games.maze.level import Level
from srl_envs.games.maze.vector_walks import is_test, layout_hashes, walks
from srl_envs.vector.streams import Streams

AHEAD = 4096  # mazes that are made ahead, of all environments
LEAST_AHEAD = 4  # of one environment, so that it rarely runs out before many do
FEW = 12  # mazes that are sooner made one by one
TRIES = 200  # at a maze with so long a path, before the recipe is asked, which says if it gives up


class Mazes(NamedTuple):
    """M mazes of C cells, and where their A seats start and go, as numbers of cells."""

    shut: np.ndarray
    """bool (M, C)"""
    starts: np.ndarray
    """(M, A), or (A,) for all"""
    goals: np.ndarray
    """likewise"""
    fewest: np.ndarray
    """Rounds that each seat needs at least, (M, A) or (M, 1)."""
    seeds: np.ndarray
    """Level seeds or None, objects (M,)"""
    hashes: np.ndarray
    """Layout hashes, objects (M,)"""


def mazes_of(levels: Sequence[Level], task: str, seats: int) -> Mazes:
    """These levels, made ready one by one."""
    placed = [seating(level, task, seats) for level in levels]
    starts, goals, fewest = (np.array(part) for part in zip(*placed, strict=True))
    return Mazes(
        np.array([[not ways for ways in level.doors] for level in levels]),
        starts,
        goals,
        fewest,
        np.array([level.seed for level in levels], object),
        np.array([level.layout_hash for level in levels], object),
    )


class Levels:
    """The mazes that each environment's generator draws, in order: those of MazeRecipe.sample.

    Mazes without loops in which seats go from corner to corner are made ahead, many at once; others
    one by one.
    """

    def __init__(self, game: Maze, num_envs: int) -> None:
        self._recipe, self._split, self._task = game.recipe, game.split, game.task
        self._seats = len(game.possible_agents)
        self._many = game.task == "race" and not game.recipe.loop_share
        self._generators: list[np.random.Generator | None] = [None] * num_envs
        if not self._many:
            return
        cells = game.recipe.width * game.recipe.height
        room = max(LEAST_AHEAD, AHEAD // num_envs)
        # Per environment a ring: `_taken` of all mazes it was ever made were played, of `_made`.
        self._shut = np.zeros((num_envs, room, cells), bool)
        self._moves = np.zeros((num_envs, room), np.int64)
        self._seeds = np.full((num_envs, room), None, object)
        self._hashes = np.full((num_envs, room), None, object)
        self._taken = np.zeros(num_envs, np.int64)
        self._made = np.zeros(num_envs, np.int64)
        self._room = room
        self._ahead = 1  # of each environment; more once it has shown that it goes on

    def restart(self, who: Sequence[int], seeds: Sequence[int | None]) -> None:
        """Streams from new seeds; None goes on with the old one."""
        seeded = [(i, seed) for i, seed in zip(who, seeds, strict=True) if seed is not None]
        for i, seed in seeded:
            self._generators[i] = np.random.default_rng(seed)
        if seeded and self._many:
            fresh = [i for i, _ in seeded]
            self._taken[fresh] = self._made[fresh] = 0
            self._ahead = 1

    def next(self, who: np.ndarray) -> Mazes:
        """The next maze of each of these environments."""
        if not self._many:
            drawn = [self._recipe.sample(self._generator(i), self._split) for i in who.tolist()]
            return mazes_of(drawn, self._task, self._seats)
        if (self._taken[who] == self._made[who]).any():
            self._make_ahead(who)
        at = who, self._taken[who] % self._room
        self._taken[who] += 1
        last = np.full(self._seats, self._shut.shape[2] - 1)
        return Mazes(
            self._shut[at],
            np.zeros_like(last),
            last,
            self._moves[at][:, None],
            self._seeds[at],
            self._hashes[at],
        )

    def _generator(self, i: int) -> np.random.Generator:
        generator = self._generators[i]
        if generator is None:
            generator = self._generators[i] = np.random.default_rng()
        return generator

    def _make_ahead(self, who: np.ndarray) -> None:
        """Fill all rings up, and go on until none of `who` has an empty one."""
        wanted = np.zeros_like(self._made)
        if self._ahead == 1:
            wanted[who] = self._taken[who] == self._made[who]
        else:
            np.maximum(self._ahead - (self._made - self._taken), 0, out=wanted)
        self._ahead = min(LEAST_AHEAD * self._ahead, self._room)
        drawn = 0
        while wanted.any():
            drawn += int(wanted.max())
            owners = np.repeat(np.arange(len(wanted)), wanted)
            # One by one, as the single environment does: an array of a few takes far longer.
            drawing = [self._generator(i) for i in wanted.nonzero()[0].tolist()]
            counts = wanted[wanted > 0].tolist()
            seeds = np.array(
                [
                    int(generator.integers(2**32))
                    for generator, count in zip(drawing, counts, strict=True)
                    for _ in range(count)
                ]
            )
            shut, moves, hashes = self._make(seeds)
            if self._split != "any":
                tests = np.fromiter(map(is_test, hashes), bool, len(hashes))
                good = tests == (self._split == "test")
                owners, seeds, shut = owners[good], seeds[good], shut[good]
                moves, hashes = moves[good], hashes[good]
            count = np.bincount(owners, minlength=len(wanted))
            which = np.arange(len(owners)) - np.repeat(count.cumsum() - count, count)
            at = owners, (self._made[owners] + which) % self._room
            self._shut[at], self._moves[at], self._hashes[at] = shut, moves, hashes
            self._seeds[at] = seeds.tolist()
            self._made += count
            wanted[:] = 0
            wanted[who] = self._taken[who] == self._made[who]
            if drawn > ATTEMPTS:
                raise self._recipe.too_few(f"of the {self._split} split", drawn)

    def _make(self, seeds: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """MazeRecipe.level of many seeds: where it is shut, shortest paths, layout hashes."""
        recipe, count = self._recipe, len(seeds)
        cells = recipe.width * recipe.height
        shut = np.empty((count, cells), bool)
        moves = np.full(count, -1)
        left, tried, streams = np.arange(count), 0, Streams(seeds)
        while len(left) > FEW and tried < TRIES:
            # A maze that is thrown away leaves the next to the numbers that follow.
            made = walks(recipe.width, recipe.height, streams.uniforms(cells))
            good = made.moves >= max(1, recipe.min_path)
            shut[left[good]], moves[left[good]] = made.shut[good], made.moves[good]
            left, tried = left[~good], tried + 1
            streams.keep(~good)
        for i in left.tolist():
            level = recipe.level(int(seeds[i]))
            shut[i] = [not ways for ways in level.doors]
            moves[i] = level.shortest_path
        hashes = layout_hashes(recipe.width, recipe.height, shut)
        return shut, moves, np.array(hashes, object)
