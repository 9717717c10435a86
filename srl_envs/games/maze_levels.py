"""Maze levels: cells, walls, shortest paths, the documented layouts and the holdout split.

A cell is (x, y), y growing downward, or its number y * width + x. Moves are up, down, left and
right, in the order of ANSWERS; walls and the border block them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, cached_property, lru_cache
from hashlib import blake2b
from operator import index, itemgetter
from types import MappingProxyType
from typing import Any

import numpy as np

from srl_envs.errors import EnvConfigError
from srl_envs.validation import check_choice, entries_of, number_between, set_fields, whole_number

ANSWERS = ("up", "down", "left", "right")
"""Answers in action order."""
STEPS = ((0, -1), (0, 1), (-1, 0), (1, 0))
"""Change of (x, y) by each action."""

SPLITS = ("train", "test")
TEST_SHARE = 5  # one of this many layouts belongs to the test split

Cell = tuple[int, int]


@cache
def cells(width: int, height: int) -> frozenset[Cell]:
    """Return the cells of a grid."""
    return frozenset((x, y) for y in range(height) for x in range(width))


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
    """Return the shape and the order of cells for each rotation and reflection of a grid."""
    grid = np.arange(width * height).reshape(height, width)
    forms = [form[::a, ::b] for form in (grid, grid.T) for a in (1, -1) for b in (1, -1)]
    return tuple((b"%dx%d:" % form.shape, itemgetter(*form.ravel().tolist())) for form in forms)


@dataclass(frozen=True)
class Level:
    """One maze; raises EnvConfigError for cells outside it and for an unreachable goal."""

    width: int
    height: int
    walls: frozenset[Cell]
    start: Cell
    goal: Cell
    seed: int | None = field(default=None, compare=False)
    """Level seed of a generated maze, None for a drawn one."""

    def __post_init__(self) -> None:
        width = whole_number("width", self.width, low=1)
        height = whole_number("height", self.height, low=1)
        walls = frozenset((index(x), index(y)) for x, y in self.walls)
        start, goal = (tuple(map(index, cell)) for cell in (self.start, self.goal))
        set_fields(self, width=width, height=height, walls=walls, start=start, goal=goal)
        if not walls | {start, goal} <= cells(width, height) or walls & {start, goal}:
            raise EnvConfigError(
                f"walls, start and goal must be different cells of a {width}x{height} maze, got "
                f"walls {sorted(walls)}, start {start} and goal {goal}"
            )
        if start == goal or self.shortest_path < 0:
            raise EnvConfigError(
                f"the goal {goal} must be another cell than the start {start}, with a way from "
                "there"
            )

    @classmethod
    def drawn(cls, lines: Sequence[str]) -> Level:
        """Return the maze that `lines` draw, the top one first: A start, G goal, # wall, . free."""
        at: dict[str, list[Cell]] = {mark: [] for mark in "AG#."}
        for y, line in enumerate(entries_of("layout", lines)):
            if not isinstance(line, str) or set(line) - set(at) or len(line) != len(lines[0]):
                raise EnvConfigError(
                    f"a maze is drawn in equally long lines of A, G, # and ., got {line!r}"
                )
            for x, mark in enumerate(line):
                at[mark].append((x, y))
        if len(at["A"]) != 1 or len(at["G"]) != 1:
            raise EnvConfigError(f"a maze needs one A and one G, got {list(lines)}")
        walls = frozenset(at["#"])
        return cls(len(lines[0]), len(lines), walls, at["A"][0], at["G"][0])

    def number(self, cell: Cell) -> int:
        """Return the number of a cell."""
        return cell[1] * self.width + cell[0]

    @cached_property
    def doors(self) -> tuple[tuple[int, ...], ...]:
        """Target of each action by cell number, -1 if it is blocked; empty for walls."""
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
        """Return the length of the shortest path from `source` to each cell, else -1."""
        doors = self.doors
        far = [-1] * len(doors) + [0]  # the last is for blocked doors
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
        """Return `count` free cells: start, goal, then always the farthest from the earlier ones.

        Raises EnvConfigError for a maze with fewer cells.
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
        """16 hexadecimal digits, equal for a maze and its reflections and rotations."""
        shut = [not ways for ways in self.doors]
        shape, turned = min((s, turned(shut)) for s, turned in mirrors(self.width, self.height))
        return blake2b(shape + bytes(turned), digest_size=8).hexdigest()

    @property
    def split(self) -> str:
        """Split, "train" or "test", which depends on the layout alone."""
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


ATTEMPTS = 10_000  # mazes that may be made in vain before we say that there is none
_FREE = 8


@dataclass(frozen=True)
class MazeRecipe:
    """Parameters of generated mazes: a level seed makes one, always the same.

    From the top left corner, where the start is, a depth-first walk of random turns opens every
    cell that touches but one open cell, so that any two open cells are joined by one way; then
    `loop_share` of the walls between ways are opened too. The goal is the bottom right corner.
    Mazes that leave it shut are thrown away. Raises EnvConfigError for parameters out of range.
    """

    width: int = 9
    height: int = 9
    loop_share: float = 0.0
    """Share, 0 to 1, of the walls between ways that are opened: with 0 there is only one way."""

    def __post_init__(self) -> None:
        set_fields(
            self,
            width=whole_number("width", self.width, low=3),
            height=whole_number("height", self.height, low=3),
            loop_share=number_between("loop_share", self.loop_share, 0.0, 1.0),
        )

    @property
    def least_cells(self) -> int:
        """Free cells that every maze has: those on the way from corner to corner."""
        return self.width + self.height - 1

    def level(self, seed: int) -> Level:
        """Return the maze of a level seed."""
        return _made(self, whole_number("level_seed", seed, low=0))

    def sample(self, generator: np.random.Generator, split: str = "any") -> Level:
        """Draw a maze of the split ("train", "test" or "any")."""
        check_choice("split", split, (*SPLITS, "any"))
        for _ in range(ATTEMPTS):
            level = self.level(int(generator.integers(2**32)))
            if split in ("any", level.split):
                return level
        raise self.too_few(f"of the {split} split")

    def level_seeds(self, split: str, count: int, *, distinct: bool = False) -> tuple[int, ...]:
        """Return the first `count` level seeds, from 0 up, whose mazes are in the split.

        `distinct` leaves out seeds with the layout, or a mirror image, of an earlier one.
        """
        check_choice("split", split, SPLITS)
        count = whole_number("count", count, low=0)
        levels = first_levels(self, split, count, distinct)
        return tuple(level.seed for level in levels if level.seed is not None)

    def too_few(self, which: str) -> EnvConfigError:
        """Return the error for a recipe that makes no maze of this kind."""
        return EnvConfigError(
            f"no maze {which} among {ATTEMPTS} made by {self}: use a larger maze or another "
            "share of loops"
        )


@lru_cache(maxsize=16)
def first_levels(
    recipe: MazeRecipe, split: str, count: int, distinct: bool = False
) -> tuple[Level, ...]:
    """Return the mazes of the first level seeds in the split; see MazeRecipe.level_seeds."""
    found: list[Level] = []
    seen: set[str] = set()
    vain = seed = 0
    while len(found) < count:
        level = recipe.level(seed)
        new = split in ("any", level.split) and not (distinct and level.layout_hash in seen)
        if new:
            found.append(level)
            seen.add(level.layout_hash)
        seed, vain = seed + 1, 0 if new else vain + 1
        if vain >= ATTEMPTS:
            raise recipe.too_few(f"of the {split} split after the first {len(found)}")
    return tuple(found)


@lru_cache(maxsize=256)
def _made(recipe: MazeRecipe, seed: int) -> Level:
    generator = np.random.default_rng(seed)
    width, height = recipe.width, recipe.height
    for _ in range(ATTEMPTS):
        free = _tree(width, height, generator)
        if not free[-1]:
            continue
        if recipe.loop_share:
            _open_loops(free, width, recipe.loop_share, generator)
        walls = frozenset((i % width, i // width) for i, is_free in enumerate(free) if not is_free)
        return Level(width, height, walls, (0, 0), (width - 1, height - 1), seed)
    raise recipe.too_few("with an open goal")


def _tree(width: int, height: int, generator: np.random.Generator) -> list[bool]:
    """Cell number -> whether it is free, in a maze in which one way joins any two free cells."""
    near = _around_or_outside(width, height)
    turns = generator.random(width * height).tolist()
    # Number of free neighbors of each cell; _FREE or more for free cells and the outside.
    touching = [0] * (width * height) + [_FREE]
    here, opened = 0, 0
    walk: list[int] = []  # cells behind us from which more may be opened
    while True:
        touching[here] = _FREE
        up, down, left, right = near[here]
        touching[up] += 1
        touching[down] += 1
        touching[left] += 1
        touching[right] += 1
        # Written out, here and above: it halves the time of a new maze.
        while True:
            ahead = []
            up, down, left, right = near[here]
            if touching[up] == 1:
                ahead.append(up)
            if touching[down] == 1:
                ahead.append(down)
            if touching[left] == 1:
                ahead.append(left)
            if touching[right] == 1:
                ahead.append(right)
            if ahead:
                break
            if not walk:
                return [count >= _FREE for count in touching[:-1]]
            here = walk.pop()
        if len(ahead) > 1:
            walk.append(here)
        here = ahead[int(turns[opened] * len(ahead))]
        opened += 1


@cache
def _around_or_outside(width: int, height: int) -> tuple[tuple[int, ...], ...]:
    """`around`, with one number past the last for the outside."""
    outside = width * height
    return tuple(
        tuple(outside if cell < 0 else cell for cell in cells) for cells in around(width, height)
    )


def _open_loops(free: list[bool], width: int, share: float, generator: np.random.Generator) -> None:
    near = around(width, len(free) // width)
    between = [
        cell
        for cell, is_free in enumerate(free)
        if not is_free and sum(free[beside] for beside in near[cell] if beside >= 0) >= 2
    ]
    for chosen in generator.permutation(len(between))[: round(share * len(between))].tolist():
        free[between[chosen]] = True


class Board:
    """Tables of one level for one view radius; cells are numbers."""

    def __init__(self, level: Level, radius: int) -> None:
        width, height = level.width, level.height
        self.doors = level.doors
        self._cells = [(i % width, i // width) for i in range(width * height)]
        self.x = [column / max(1, width - 1) for column, _ in self._cells]
        self.y = [row / max(1, height - 1) for _, row in self._cells]
        self._across = 2 * radius + 1
        shut = np.array([not ways for ways in level.doors]).reshape(height, width)
        self._solid = np.pad(shut, radius, constant_values=True).astype(float).tolist()
        # Filled as places are seen: most episodes see few of them.
        self._views: list[tuple[float, ...] | None] = [None] * len(self.doors)

    def distance(self, one: int, other: int) -> int:
        """Return the Manhattan distance of two places, in cells."""
        x, y = self._cells[one]
        other_x, other_y = self._cells[other]
        return abs(x - other_x) + abs(y - other_y)

    def view(self, place: int) -> tuple[float, ...]:
        """Return the cells around a place, row by row: 1 for a wall or the outside, else 0."""
        seen = self._views[place]
        if seen is None:
            x, y = self._cells[place]
            rows = self._solid[y : y + self._across]
            seen = tuple(cell for row in rows for cell in row[x : x + self._across])
            self._views[place] = seen
        return seen

    def open_ways(self, place: int) -> np.ndarray:
        """Return an int8 mask of the actions that no wall blocks at a place."""
        return np.array([there >= 0 for there in self.doors[place]], dtype=np.int8)


board_of = lru_cache(maxsize=256)(Board)
"""Board of a level and a view radius, cached."""
