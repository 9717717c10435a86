"""Rendering of a maze, as text or as an RGB array.

Cells are known by their numbers, y * width + x. `trails` are by agent every place it has been at,
the last one where it is; `goals` are by agent too, and empty where there are none that stay.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from srl_envs.games.maze.level import Level
from srl_envs.games.rendering import INK, LINE, MARGIN, Colour, Frame, colour_of, width_of

LETTERS = "ABCDEFHIJKLMNOPQRSTUVWXYZ"  # G is for goals
CROWD = "*"  # agents beyond the letters


def ansi(headline: str, level: Level, trails: Sequence[Sequence[int]], goals: Sequence[int]) -> str:
    """The headline, then a line per row: A, B, ... agents, G goals, # walls, . free; ended
    lines."""
    marks = ["#" if not ways else "." for ways in level.doors]
    for goal in goals:
        marks[goal] = "G"
    for agent, trail in reversed(list(enumerate(trails))):
        marks[trail[-1]] = LETTERS[agent] if agent < len(LETTERS) else CROWD
    rows = range(0, len(marks), level.width)
    return "\n".join([headline, *("".join(marks[r : r + level.width]) for r in rows), ""])


_WALL, _FREE = (60, 60, 66), (226, 226, 222)
_LARGEST, _SMALLEST = 24, 6  # pixels per cell
_FRAME = 480  # pixels: a maze is drawn with the largest cells that keep it within, if any do


def rgb_array(
    headline: str, level: Level, trails: Sequence[Sequence[int]], goals: Sequence[int]
) -> np.ndarray:
    """The picture as a uint8 array (height, width, 3).

    A headline, whose length is the least width; below it the maze, goals as hollow squares, trails
    as lines from where each agent began, and the agents as filled squares, each agent in its own
    colour; a goal that is everyone's is black.
    """
    cell = max(_SMALLEST, min(_LARGEST, _FRAME // max(level.width, level.height)))
    height = 2 * MARGIN + LINE + level.height * cell
    frame = Frame(height, 2 * MARGIN + max(level.width * cell, width_of(headline)))

    def corner(place: int) -> tuple[int, int]:
        return MARGIN + LINE + place // level.width * cell, MARGIN + place % level.width * cell

    def square(place: int, inset: int, colour: Colour) -> None:
        top, left = corner(place)
        side = max(1, cell + 1 - 2 * inset)
        frame.box(top + inset, left + inset, side, side, colour)

    frame.write(headline, MARGIN, MARGIN)
    for place, ways in enumerate(level.doors):
        square(place, 1, _FREE if ways else _WALL)
    for agent, goal in enumerate(goals):
        square(goal, cell // 8 + 1, INK if goals.count(goal) > 1 else colour_of(agent))
        square(goal, cell // 4 + 1, _FREE)
    here: dict[int, list[int]] = {}
    for agent, trail in enumerate(trails):
        here.setdefault(trail[-1], []).append(agent)
        # Trails lie side by side within a cell, so that none hides another.
        lane = cell // 2 + (agent % 5 - 2) * max(1, cell // 12)
        points = [(left + lane, top + lane) for top, left in map(corner, trail)]
        frame.line(points, colour_of(agent), max(1, cell // 12))
    for place, agents in here.items():  # those in one cell share its square, side by side
        (top, left), side = corner(place), max(1, cell + 1 - 2 * (cell // 4))
        for part, agent in enumerate(agents):
            begin, end = part * side // len(agents), (part + 1) * side // len(agents)
            inset = cell // 4
            frame.box(top + inset, left + inset + begin, side, end - begin, colour_of(agent))
    return frame.pixels()
