"""Maze levels: cells, walls, shortest paths, the documented layouts and the holdout split.

A cell is (x, y), y growing downward, or its number y * width + x. Moves are up, down, left and
right, in the order of ANSWERS; walls and the border block them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property
from hashlib import blake2b
from operator import itemgetter
from types import MappingProxyType
from typing import Any

import numpy as np

from srl_envs.errors import EnvConfigError
from srl_envs.validation import set_fields, shown, whole_number

ANSWERS = ("up", "down", "left", "right")
"""In action order."""
STEPS = ((0, -1), (0, 1), (-1, 0), (1, 0))
"""What each action adds to (x, y)."""

SPLITS = ("train", "test")
TEST_SHARE = 5  # one layout in so many is held out for tests

Cell = tuple[int, int]


@cache
def cells(width: int, height: int) -> Mapping[Any, Cell]:
    """Each cell of a grid, looked up by itself or what equals it."""
    return {(x, y): (x, y) for y in range(height) for x in range(width)}


@cache
def around(width: int, height: int) -> tuple[tuple[int, ...], ...]:
    """Cell number -> the number of the cell that each action points to, -1 for the outside."""
    return tuple(
        tuple(
            (y + dy) * width + x + dx if 0 <= x + dx < width and 0 <= y + dy < height else -1
            for dx, dy in STEPS
        )
        for y in range(height)
        for x in range(width)
    )


@cache
def mirrors(width: int, height: int) -> tuple[tuple[bytes, itemgetter[Any]], ...]:
    """For each way to turn or mirror a grid: its shape then, and the cells in their new order."""
    grid = np.arange(width * height).reshape(height, width)
    forms = [form[::a, ::b] for form in (grid, grid.T) for a in (1, -1) for b in (1, -1)]
    return tuple((b"%dx%d:" % form.shape, itemgetter(*form.ravel().tolist())) for form in forms)


@dataclass(frozen=True)
class Level:
    """One maze. Raises EnvConfigError for what is not inside, or a goal that cannot be reached."""

    width: int
    height: int
    walls: frozenset[Cell]
    start: Cell
    goal: Cell
    seed: int | None = field(default=None, compare=False)
    """The level seed that it was made from; None for a drawn one."""

    def __post_init__(self) -> None:
        width = whole_number("width", self.width, low=1)
        height = whole_number("height", self.height, low=1)
        set_fields(self, width=width, height=height)
        set_fields(self, walls=frozenset(self._inside("a wall must be a cell", self.walls)))
        for name, given in (("start", self.start), ("goal", self.goal)):
            (cell,) = self._inside(f"{name} must be a free cell", (given,))
            if cell in self.walls:
                raise EnvConfigError(f"{name} must be a free cell of the maze, got {cell}: a wall")
            set_fields(self, **{name: cell})
        if self.start == self.goal or self.shortest_path < 0:
            raise EnvConfigError(
                f"the goal {self.goal} must be another cell than the start {self.start}, "
                "with a way from there"
            )

    def _inside(self, needed: str, given: Iterable[Any]) -> list[Cell]:
        """These cells as pairs of ints; raises EnvConfigError for the first that is none."""
        known, found, cell = cells(self.width, self.height), [], given
        try:
            for cell in given:
                found.append(known[tuple(cell)])
        except (TypeError, KeyError):
            raise EnvConfigError(
                f"{needed} of the {self.width}x{self.height} maze, from (0, 0) to "
                f"{(self.width - 1, self.height - 1)}, got {shown(cell)}"
            ) from None
        return found

    @classmethod
    def drawn(cls, lines: Sequence[str]) -> Level:
        """The maze that `lines` draw, the top one first: A start, G goal, # wall, . free."""
        listed = isinstance(lines, Sequence) and not isinstance(lines, str | bytes)
        if not listed or not all(isinstance(line, str) for line in lines):
            raise EnvConfigError(
                f"a maze is drawn in lines, such as ['A.', '#G'], got {shown(lines)}"
            )
        at: dict[str, list[Cell]] = {mark: [] for mark in "AG#."}
        for y, line in enumerate(lines):
            for x, mark in enumerate(line):
                if mark not in at or len(line) != len(lines[0]):
                    raise EnvConfigError(
                        f"a maze is drawn in equally long lines of A, G, # and ., got {line!r}"
                    )
                at[mark].append((x, y))
        if len(at["A"]) != 1 or len(at["G"]) != 1:
            raise EnvConfigError(f"a maze needs one A and one G, got {list(lines)}")
        walls = frozenset(at["#"])
        return cls(len(lines[0]), len(lines), walls, at["A"][0], at["G"][0])

    def number(self, cell: Cell) -> int:
        """The number of a cell."""
        return cell[1] * self.width + cell[0]

    @cached_property
    def doors(self) -> tuple[tuple[int, ...], ...]:
        """Cell number -> where each action leads from there, -1 where it is blocked.

        Empty for walls.
        """
        shut = [False] * (self.width * self.height) + [True]  # the last is for the outside
        for x, y in self.walls:
            shut[y * self.width + x] = True
        return tuple(
            ()
            if shut[cell]
            else (
                -1 if shut[up] else up,
                -1 if shut[down] else down,
                -1 if shut[left] else left,
                -1 if shut[right] else right,
            )
            for cell, (up, down, left, right) in enumerate(around(self.width, self.height))
        )

    def distances(self, source: int) -> list[int]:
        """Cell number -> length of the shortest path from `source`, -1 where there is none."""
        doors = self.doors
        far = [-1] * len(doors) + [0]  # the last stands behind shut doors: nothing to go and see
        far[source] = 0
        reached = [source]
        for cell in reached:  # grows as we go: breadth first
            further = far[cell] + 1
            for neighbour in doors[cell]:
                if far[neighbour] < 0:
                    far[neighbour] = further
                    reached.append(neighbour)
        far.pop()
        return far

    @cached_property
    def shortest_path(self) -> int:
        """Moves on the shortest path from start to goal."""
        return self.distances(self.number(self.start))[self.number(self.goal)]

    def stations(self, count: int) -> tuple[int, ...]:
        """The numbers of `count` free cells: start, goal, then always the farthest from the others.

        Raises EnvConfigError where there are fewer cells.
        """
        places = [self.number(self.start), self.number(self.goal)]
        nearest = self.distances(places[0]) if count > 2 else []
        while len(places) < count:
            away = zip(nearest, self.distances(places[-1]), strict=True)
            nearest = [min(pair) for pair in away]
            farthest = max(nearest)
            if farthest <= 0:
                raise EnvConfigError(f"the maze has only {len(places)} cells for {count} agents")
            places.append(nearest.index(farthest))
        return tuple(places[:count])

    @cached_property
    def layout_hash(self) -> str:
        """16 hexadecimal digits for where the walls are; the same for a maze and its mirror images.

        What is learnt in a maze can be used in its reflections and rotations, so they count as one.
        """
        shut = [not ways for ways in self.doors]
        shape, cells = min((s, turned(shut)) for s, turned in mirrors(self.width, self.height))
        return blake2b(shape + bytes(cells), digest_size=8).hexdigest()

    @property
    def split(self) -> str:
        """ "train" or "test": decided by the layout alone, so no layout is in both."""
        return SPLITS[int(self.layout_hash, 16) % TEST_SHARE == 0]


def _documented(size: int, walls: frozenset[Cell]) -> Level:
    return Level(size, size, walls, (0, 0), (size - 1, size - 1))


LAYOUTS: Mapping[str, Level] = MappingProxyType(
    {
        "simple": _documented(5, frozenset({(2, 1), (2, 2), (2, 3)})),
        "medium": _documented(7, frozenset({(2, 2), (2, 3), (3, 2), (4, 4), (4, 5)})),
        "complex": _documented(
            10, frozenset({(3, y) for y in range(1, 8)} | {(6, y) for y in range(2, 9)})
        ),
    }
)
"""The documented mazes, each with its goal in the far corner, where a way leads."""
