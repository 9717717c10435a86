"""Pictures of a maze, as text or as an RGB array, drawn with numpy alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from srl_envs import rendering
from srl_envs.mazes import Level

SEATS = "ABCDEFHIJKLMNOPQRSTUVWXYZ"  # G is for goals
CROWD = "*"  # seats beyond the letters


@dataclass(frozen=True)
class Picture:
    """One moment of a maze. Cells are known by their numbers, y * width + x."""

    headline: str
    room: int
    """Characters that the headline may grow to, so that all frames of an episode are as wide."""
    level: Level
    trails: Sequence[Sequence[int]]
    """By seat: every place it has been at, the last one where it is."""
    goals: Sequence[int]
    """By seat; empty where there are none that stay."""


def ansi(picture: Picture) -> str:
    """The headline, then a line per row: A, B, ... seats, G goals, # walls, . free; ended lines."""
    level = picture.level
    marks = ["#" if not ways else "." for ways in level.doors]
    for goal in picture.goals:
        marks[goal] = "G"
    for seat, trail in reversed(list(enumerate(picture.trails))):
        marks[trail[-1]] = SEATS[seat] if seat < len(SEATS) else CROWD
    rows = range(0, len(marks), level.width)
    return "\n".join([picture.headline, *("".join(marks[r : r + level.width]) for r in rows), ""])


_WALL, _FREE = (60, 60, 66), (226, 226, 222)
_LARGEST, _SMALLEST = 24, 6  # pixels per cell
_FRAME = 480  # pixels: a maze is drawn with the largest cells that keep it within, if any do


def rgb_array(picture: Picture) -> np.ndarray:
    """The picture as a uint8 array (height, width, 3).

    A headline; below it the maze, goals as hollow squares, trails as lines from where each seat
    began, and the seats as filled squares, each seat in its own colour; a goal that is everyone's
    is black.
    """
    level = picture.level
    cell = max(_SMALLEST, min(_LARGEST, _FRAME // max(level.width, level.height)))
    margin, head = rendering.MARGIN, rendering.LINE
    across = max(level.width * cell, rendering.width_of("x" * picture.room))
    frame = np.empty((2 * margin + head + level.height * cell, 2 * margin + across, 3), np.uint8)
    frame[:] = rendering.PAPER
    rendering.write(frame, picture.headline, margin, margin, rendering.INK)
    grid = np.array([bool(ways) for ways in level.doors]).reshape(level.height, level.width)
    free = grid.repeat(cell, axis=0).repeat(cell, axis=1)
    maze = frame[margin + head :, margin:][: free.shape[0], : free.shape[1]]
    maze[:] = np.where(free[..., None], _FREE, _WALL)
    maze[::cell] = maze[:, ::cell] = rendering.PAPER  # the lines between cells
    for seat, goal in enumerate(picture.goals):
        square = _square(maze, goal, level.width, cell, inset=cell // 8 + 1)
        shared = picture.goals.count(goal) > 1
        square[:] = rendering.INK if shared else _colour(seat)
        _square(maze, goal, level.width, cell, inset=cell // 4 + 1)[:] = _FREE
    for seat, trail in enumerate(picture.trails):
        _draw_trail(maze, trail, level.width, cell, seat)
    here: dict[int, list[int]] = {}
    for seat, trail in enumerate(picture.trails):
        here.setdefault(trail[-1], []).append(seat)
    for place, seats in here.items():  # those in one cell share its square, side by side
        square = _square(maze, place, level.width, cell, inset=cell // 4)
        for part, seat in zip(np.array_split(square, len(seats), axis=1), seats, strict=True):
            part[:] = _colour(seat)
    return frame


def _colour(seat: int) -> tuple[int, int, int]:
    return rendering.COLOURS[seat % len(rendering.COLOURS)]


def _square(maze: np.ndarray, place: int, width: int, cell: int, inset: int) -> np.ndarray:
    """The pixels of a cell, `inset` within its border; a view."""
    top, left = place // width * cell + inset, place % width * cell + inset
    side = max(1, cell + 1 - 2 * inset)
    return maze[top : top + side, left : left + side]


def _draw_trail(maze: np.ndarray, trail: Sequence[int], width: int, cell: int, seat: int) -> None:
    # Seats' trails lie side by side within a cell, so that none hides another.
    lane = cell // 2 + (seat % 5 - 2) * max(1, cell // 12)
    colour, thick = _colour(seat), max(1, cell // 12)
    centres = [(place // width * cell + lane, place % width * cell + lane) for place in trail]
    for (top, left), (down, right) in pairwise(centres):
        (top, down), (left, right) = sorted((top, down)), sorted((left, right))
        maze[top : down + thick, left : right + thick] = colour
