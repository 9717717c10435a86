"""Lookup tables of one maze: neighbours, distances, local views."""

from __future__ import annotations

from functools import cache, lru_cache

import numpy as np

from srl_envs.games.maze.level import Level


class Board:
    """The tables of one level, for one view radius (cells). Cells are known by their numbers."""

    def __init__(self, level: Level, radius: int) -> None:
        width, height = level.width, level.height
        self.doors = level.doors
        """Place -> where each action leads, -1 where a wall is in the way; empty for walls."""
        self._cells, self.x, self.y = _places(width, height)
        self._radius = radius
        border = [1.0] * radius
        inside = [0.0 if ways else 1.0 for ways in level.doors]
        outside = [[1.0] * (width + 2 * radius)] * radius
        self._solid = [
            *outside,
            *(border + inside[at : at + width] + border for at in range(0, len(inside), width)),
            *outside,
        ]
        # Filled as places are seen: most games see few of them.
        self._views: list[tuple[float, ...] | None] = [None] * len(self.doors)

    def distance(self, one: int, other: int) -> int:
        """The Manhattan distance of two places, in cells."""
        x, y = self._cells[one]
        other_x, other_y = self._cells[other]
        return abs(x - other_x) + abs(y - other_y)

    def view(self, place: int) -> tuple[float, ...]:
        """The cells around a place, row by row: 1 for a wall or the outside, else 0."""
        seen = self._views[place]
        if seen is None:
            x, y = self._cells[place]
            across = 2 * self._radius + 1
            around: list[float] = []
            for row in self._solid[y : y + across]:
                around += row[x : x + across]
            seen = tuple(around)
            self._views[place] = seen
        return seen

    def open_ways(self, place: int) -> np.ndarray:
        """1 for each action that no wall blocks at a place, else 0 (int8)."""
        return np.array([there >= 0 for there in self.doors[place]], dtype=np.int8)


@cache
def _places(width: int, height: int) -> tuple[list[tuple[int, int]], list[float], list[float]]:
    """Place -> (column, row), and each of the two from 0 to 1."""
    cells = [(i % width, i // width) for i in range(width * height)]
    x = [column / max(1, width - 1) for column, _ in cells]
    return cells, x, [row / max(1, height - 1) for _, row in cells]


board_of = lru_cache(maxsize=256)(Board)
"""The board of a level, for a view radius; the same object again while it is remembered."""
