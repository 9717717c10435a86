"""Maze generator: a recipe and a level seed give one maze, always the same."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, lru_cache

import numpy as np

from srl_envs.errors import EnvConfigError
from srl_envs.games.maze.level import SPLITS, Level, around
from srl_envs.validation import check_choice, number_between, set_fields, whole_number

ATTEMPTS = 10_000  # mazes that may be made in vain before we say that there is none
_FREE = 8


@dataclass(frozen=True)
class MazeRecipe:
    """Parameters of generated mazes: a level seed makes one, always the same.

    From the top left corner, where the start is, a depth-first walk of random turns opens every
    cell that touches but one open cell, so that any two open cells are joined by one way; then
    `loop_share` of the walls between ways are opened too. The goal is the bottom right corner.
    Mazes that leave it shut, or reach it in less than `min_path` moves, are thrown away. Raises
    EnvConfigError for parameters out of range.
    """

    width: int = 9
    height: int = 9
    loop_share: float = 0.0
    """Share, 0 to 1, of the walls between ways that are opened: with 0 there is only one way."""
    min_path: int = 0
    """Moves on the shortest path, at least."""

    def __post_init__(self) -> None:
        set_fields(
            self,
            width=whole_number("width", self.width, low=3),
            height=whole_number("height", self.height, low=3),
            loop_share=number_between("loop_share", self.loop_share, 0.0, 1.0),
            min_path=whole_number("min_path", self.min_path, low=0),
        )
        cells = self.width * self.height
        if self.min_path >= cells:
            raise EnvConfigError(
                f"min_path must be below {cells} in a {self.width}x{self.height} maze, "
                f"got {self.min_path}"
            )

    @property
    def least_cells(self) -> int:
        """Free cells that every maze has: those on the way from corner to corner."""
        return 1 + max(self.width + self.height - 2, self.min_path)

    def level(self, seed: int) -> Level:
        """The maze of a level seed; the same object again while it is remembered."""
        return _made(self, whole_number("level_seed", seed, low=0))

    def sample(self, generator: np.random.Generator, split: str = "any") -> Level:
        """A maze of the split ("train", "test" or "any"), drawn with `generator`."""
        check_choice("split", split, (*SPLITS, "any"))
        for _ in range(ATTEMPTS):
            level = self.level(int(generator.integers(2**32)))
            if split in ("any", level.split):
                return level
        raise self.too_few(f"of the {split} split", ATTEMPTS)

    def level_seeds(self, split: str, count: int, *, distinct: bool = False) -> tuple[int, ...]:
        """The first `count` level seeds, from 0 up, whose mazes are in the split.

        `distinct` leaves out seeds whose layout, or a mirror image of it, an earlier one has.
        """
        check_choice("split", split, SPLITS)
        count = whole_number("count", count, low=0)
        levels = first_levels(self, split, count, distinct)
        return tuple(level.seed for level in levels if level.seed is not None)

    def too_few(self, which: str, tried: int) -> EnvConfigError:
        """The error to raise where so many tries made no maze."""
        return EnvConfigError(
            f"no maze {which} among {tried} made by {self}: ask for a larger maze, a shorter path "
            "or another share of loops"
        )


@lru_cache(maxsize=16)
def first_levels(
    recipe: MazeRecipe, split: str, count: int, distinct: bool = False
) -> tuple[Level, ...]:
    """The mazes of the first `count` level seeds in the split; see MazeRecipe.level_seeds."""
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
            raise recipe.too_few(f"of the {split} split after the first {len(found)}", vain)
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
        level = Level(width, height, walls, (0, 0), (width - 1, height - 1), seed)
        if level.shortest_path >= recipe.min_path:
            return level
    raise recipe.too_few("with so long a path", ATTEMPTS)


def _tree(width: int, height: int, generator: np.random.Generator) -> list[bool]:
    """Cell number -> whether it is free, in a maze in which one way joins any two free cells."""
    near = _around_or_outside(width, height)
    turns = generator.random(width * height).tolist()
    # Free cells beside each cell, more than any has once it is free itself, and the outside.
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
