"""Maze levels: walls, shortest paths, documented layouts, generated mazes and the test split.

A cell is given as (x, y), with y growing downward, or as its number y * width + x. Actions move up,
down, left or right, in the order of ANSWERS. Walls and the border block moves.
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
"""Change of (x, y) per action."""

SPLITS = ("train", "test")
TEST_SHARE = 5  # One of TEST_SHARE layouts belongs to the test split.

Cell = tuple[int, int]


@cache
def around(width: int, height: int) -> tuple[tuple[int, ...], ...]:
    """Return, by cell of a grid, the numbers of the cells above, below, left and right.

    Cells outside have the number width * height.
    """
    outside = width * height
    return tuple(
        tuple(
            (y + dy) * width + x + dx if 0 <= x + dx < width and 0 <= y + dy < height else outside
            for dx, dy in STEPS
        )
        for y in range(height)
        for x in range(width)
    )


@cache
def mirrors(width: int, height: int) -> tuple[tuple[bytes, itemgetter[Any]], ...]:
    """Return a pair (shape, function) for each of the 8 rotations and reflections of a grid.

    The shape is b"5x7:" for 5 rows of 7 cells after the rotation. The function receives a list
    with an item per cell, row by row, and returns the items as a tuple in the rotated order.
    """
    grid = np.arange(width * height).reshape(height, width)
    forms = [form[::a, ::b] for form in (grid, grid.T) for a in (1, -1) for b in (1, -1)]
    return tuple((b"%dx%d:" % form.shape, itemgetter(*form.ravel().tolist())) for form in forms)


@dataclass(frozen=True)
class Level:
    """One maze. Cells are (column, row) from (0, 0), the top left corner.

    Args:
        width: Number of columns, at least 1.
        height: Number of rows, at least 1.
        walls: Cells that cannot be entered.
        start: Start of the first agent, in a race of all agents.
        goal: Goal of a race or of a single agent. It must be reachable from the start.
        seed: Level seed of a generated maze, else None. Ignored by comparisons.

    Raises:
        EnvConfigError: A size is invalid; a cell is outside the maze; start, goal and walls
            overlap; or no path leads from start to goal.
    """

    width: int
    height: int
    walls: frozenset[Cell]
    start: Cell
    goal: Cell
    seed: int | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        width = whole_number("width", self.width, low=1)
        height = whole_number("height", self.height, low=1)
        walls = frozenset((index(x), index(y)) for x, y in self.walls)
        start, goal = (tuple(map(index, cell)) for cell in (self.start, self.goal))
        set_fields(self, width=width, height=height, walls=walls, start=start, goal=goal)
        inside = all(0 <= x < width and 0 <= y < height for x, y in walls | {start, goal})
        if not inside or walls & {start, goal}:
            raise EnvConfigError(
                f"walls, start and goal must be different cells of a {width}x{height} maze, got "
                f"walls {sorted(walls)}, start {start} and goal {goal}"
            )
        if start == goal or self.shortest_path < 0:
            raise EnvConfigError(
                f"the goal {goal} must be another cell than the start {start}, and reachable"
            )

    @classmethod
    def drawn(cls, lines: Sequence[str]) -> Level:
        """Return the maze drawn by `lines`, top row first: A start, G goal, # wall, . free.

        Raises EnvConfigError for other marks, unequal lines, no path, or not exactly one A and G.
        """
        at: dict[str, list[Cell]] = {mark: [] for mark in "AG#."}
        lines = entries_of("layout", lines)
        for y, line in enumerate(lines):
            if not isinstance(line, str) or set(line) - set(at) or len(line) != len(lines[0]):
                raise EnvConfigError(
                    f"layout must be equally long lines of A, G, # and ., got {line!r}"
                )
            for x, mark in enumerate(line):
                at[mark].append((x, y))
        if len(at["A"]) != 1 or len(at["G"]) != 1:
            raise EnvConfigError(f"a maze needs one A and one G, got {list(lines)}")
        walls = frozenset(at["#"])
        return cls(len(lines[0]), len(lines), walls, at["A"][0], at["G"][0])

    def number(self, cell: Cell) -> int:
        """Return the number y * width + x of a cell (x, y)."""
        return cell[1] * self.width + cell[0]

    @cached_property
    def doors(self) -> tuple[tuple[int, ...], ...]:
        """Per cell: numbers of the cells above, below, left and right, -1 if blocked.

        Walls have empty tuples.
        """
        shut = [False] * (self.width * self.height) + [True]  # The last entry is the outside.
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
        """Return the number of moves from cell number `source` to each cell, -1 if unreachable."""
        doors = self.doors
        far = [-1] * len(doors) + [0]  # The last entry, at index -1, is for blocked actions.
        far[source] = 0
        reached = [source]
        for cell in reached:  # The list grows during the loop: breadth-first search.
            further = far[cell] + 1
            for neighbor in doors[cell]:
                if far[neighbor] < 0:
                    far[neighbor] = further
                    reached.append(neighbor)
        far.pop()
        return far

    @cached_property
    def shortest_path(self) -> int:
        """Number of moves on the shortest path from start to goal."""
        return self.distances(self.number(self.start))[self.number(self.goal)]

    def stations(self, count: int) -> tuple[int, ...]:
        """Return the numbers of `count` cells: start, goal, then the farthest cell in turn.

        Farthest is the cell with the longest path to the nearest cell before it; of equal cells,
        the lowest number. Raises EnvConfigError if the maze has fewer reachable cells.
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
        """Hash of size and walls (16 hexadecimal digits), equal for rotations and reflections."""
        shut = [not ways for ways in self.doors]
        shape, turned = min((s, turned(shut)) for s, turned in mirrors(self.width, self.height))
        return blake2b(shape + bytes(turned), digest_size=8).hexdigest()

    @property
    def split(self) -> str:
        """Split, "train" or "test", as determined by `layout_hash`."""
        return SPLITS[int(self.layout_hash, 16) % TEST_SHARE == 0]


_LAYOUT_WALLS = {
    "simple": (5, [(2, 1), (2, 2), (2, 3)]),
    "medium": (7, [(2, 2), (2, 3), (3, 2), (4, 4), (4, 5)]),
    "complex": (10, [(3, y) for y in range(1, 8)] + [(6, y) for y in range(2, 9)]),
}
LAYOUTS: Mapping[str, Level] = MappingProxyType(
    {
        name: Level(size, size, frozenset(walls), (0, 0), (size - 1, size - 1))
        for name, (size, walls) in _LAYOUT_WALLS.items()
    }
)
"""Documented mazes by name. The start is the top left corner, the goal the bottom right one."""


ATTEMPTS = 10_000  # number of mazes without success after which a search fails
_FREE = 8


@dataclass(frozen=True)
class MazeRecipe:
    """Parameters of generated mazes. A level seed determines one maze.

    A random depth-first walk from the top left corner, the start, opens cells that touch exactly
    one open cell until there are none. One path then joins any two open cells. Afterwards a share
    of the walls with two or more open neighbors is opened. The goal is the bottom right corner; a
    maze in which it is a wall is drawn again.

    Args:
        width: Number of columns, at least 3.
        height: Number of rows, at least 3.
        loop_share: Share of the walls with two or more open neighbors to open, from 0 to 1.

    Raises:
        EnvConfigError: An argument is out of range.
    """

    width: int = 9
    height: int = 9
    loop_share: float = 0.0

    def __post_init__(self) -> None:
        set_fields(
            self,
            width=whole_number("width", self.width, low=3),
            height=whole_number("height", self.height, low=3),
            loop_share=number_between("loop_share", self.loop_share, 0.0, 1.0),
        )

    @property
    def least_cells(self) -> int:
        """Lower bound of the number of free cells: a shortest path from corner to corner."""
        return self.width + self.height - 1

    def level(self, seed: int) -> Level:
        """Return the maze of a level seed, a whole number of at least 0.

        Raises EnvConfigError for another seed, or if ATTEMPTS mazes have no open goal.
        """
        return _made(self, whole_number("level_seed", seed, low=0))

    def sample(self, generator: np.random.Generator, split: str = "any") -> Level:
        """Return a random maze of a split, "train", "test" or "any".

        Raises EnvConfigError for another split, or if none of ATTEMPTS mazes is of the split.
        """
        check_choice("split", split, (*SPLITS, "any"))
        for _ in range(ATTEMPTS):
            level = self.level(int(generator.integers(2**32)))
            if split in ("any", level.split):
                return level
        raise self.too_few(f"of the {split} split")

    def level_seeds(self, split: str, count: int) -> tuple[int, ...]:
        """Return the `count` smallest level seeds of mazes in the split, "train" or "test".

        Raises EnvConfigError for an invalid argument, or if ATTEMPTS mazes in a row do not fit.
        """
        check_choice("split", split, SPLITS)
        count = whole_number("count", count, low=0)
        levels = first_levels(self, split, count)
        return tuple(level.seed for level in levels if level.seed is not None)

    def too_few(self, which: str) -> EnvConfigError:
        """Return the error "no maze <which> among ..."; `which` may be "of the test split"."""
        return EnvConfigError(
            f"no maze {which} among {ATTEMPTS} mazes of {self}: use a larger maze or another "
            "loop_share"
        )


@lru_cache(maxsize=16)
def first_levels(recipe: MazeRecipe, split: str, count: int) -> tuple[Level, ...]:
    """Return the `count` mazes of `split`, which may be "any", in order of level seeds from 0.

    Raises EnvConfigError if ATTEMPTS mazes in a row are of the other split.
    """
    found: list[Level] = []
    failed = seed = 0
    while len(found) < count:
        level = recipe.level(seed)
        fits = split in ("any", level.split)
        if fits:
            found.append(level)
        seed, failed = seed + 1, 0 if fits else failed + 1
        if failed >= ATTEMPTS:
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
    """Return a random maze without loops: a bool per cell, True if free. Cell 0 is free."""
    near = around(width, height)
    turns = generator.random(width * height).tolist()
    # Number of free neighbors of each cell; at least _FREE for free cells and the outside.
    touching = [0] * (width * height) + [_FREE]
    here, opened = 0, 0
    walk: list[int] = []  # earlier cells of the walk that may have more neighbors to open
    while True:
        touching[here] = _FREE
        up, down, left, right = near[here]
        touching[up] += 1
        touching[down] += 1
        touching[left] += 1
        touching[right] += 1
        # The loops over four neighbors are unrolled, which halves the time per maze.
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


def _open_loops(free: list[bool], width: int, share: float, generator: np.random.Generator) -> None:
    """Open a random `share` (rounded) of walls with 2 or more free neighbors; changes `free`."""
    near = around(width, len(free) // width)
    known = [*free, False]  # The last entry is the outside.
    between = [
        cell
        for cell, is_free in enumerate(free)
        if not is_free and sum(known[neighbor] for neighbor in near[cell]) >= 2
    ]
    for chosen in generator.permutation(len(between))[: round(share * len(between))].tolist():
        free[between[chosen]] = True


class Board:
    """Tables of one level for one view radius: distances, coordinates and surroundings of cells.

    Cells are numbers: row * width + column. `x` and `y` are coordinates from 0 to 1, by cell.
    """

    def __init__(self, level: Level, radius: int) -> None:
        width, height = level.width, level.height
        self.doors = level.doors
        self._cells = [(i % width, i // width) for i in range(width * height)]
        self.x = [column / max(1, width - 1) for column, _ in self._cells]
        self.y = [row / max(1, height - 1) for _, row in self._cells]
        self._across = 2 * radius + 1
        shut = np.array([not ways for ways in level.doors]).reshape(height, width)
        self._solid = np.pad(shut, radius, constant_values=True).astype(float).tolist()
        # Computed on demand, because most episodes visit few cells.
        self._views: list[tuple[float, ...] | None] = [None] * len(self.doors)

    def distance(self, one: int, other: int) -> int:
        """Return the Manhattan distance between two cells, given by number."""
        x, y = self._cells[one]
        other_x, other_y = self._cells[other]
        return abs(x - other_x) + abs(y - other_y)

    def view(self, place: int) -> tuple[float, ...]:
        """Return the square of cells around `place` by row: 1 for a wall or the outside, else 0."""
        seen = self._views[place]
        if seen is None:
            x, y = self._cells[place]
            rows = self._solid[y : y + self._across]
            seen = tuple(cell for row in rows for cell in row[x : x + self._across])
            self._views[place] = seen
        return seen


board_of = lru_cache(maxsize=256)(Board)
"""Cached constructor of Board."""
