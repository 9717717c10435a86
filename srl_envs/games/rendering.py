"""Drawings of one round of a game: plain text, or an RGB array made with Pillow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from srl_envs.loading import needed_by

Colour = tuple[int, int, int]

PAPER, INK, TRACK, QUIET = (250, 250, 247), (40, 40, 45), (226, 226, 222), (128, 128, 132)
COLOURS: tuple[Colour, ...] = (
    (213, 94, 0), (0, 114, 178), (0, 158, 115), (204, 121, 167), (230, 159, 0),
    (86, 180, 233), (122, 90, 60), (106, 61, 154), (90, 140, 30), (96, 104, 112),
)  # fmt: skip
"""Colors by number of action or agent. Color-blind readers can distinguish the first five."""

BAR_LENGTH = 20  # characters
LETTER, LINE, MARGIN, BAR = 10, 24, 8, 160  # pixels: height of a capital and of a line, margin, bar
_FONT_SIZE, _ADVANCE = 14, 8  # size of Pillow's font; pixels per letter
_NUMBER = 7  # characters of a reward
_LEAST_WIDTH = 480  # pixels


class AgentLine(NamedTuple):
    """One agent's line of a drawing. Action and reward are None before the first round."""

    agent: str
    note: str
    action: int | None
    answer: str
    reward: float | None


def ansi(headline: str, lines: Sequence[AgentLine], ceiling: float, widest: int) -> str:
    """Draw a round as plain text, with one line per agent below the headline.

    `ceiling` is the reward that fills a bar, `widest` the number of characters of the longest
    possible answer.
    """
    width = max(len(line.agent) for line in lines)
    rows = [headline]
    for line in lines:
        bar = "#" * round(BAR_LENGTH * _filled(line.reward, ceiling))
        number = "" if line.reward is None else f"{line.reward:.3f}"
        row = f"{line.agent:<{width}}  {line.answer:<{widest}}  {bar:<{BAR_LENGTH}}  {number}"
        rows.append(row.rstrip())
    return "\n".join(rows) + "\n"


def _filled(reward: float | None, ceiling: float) -> float:
    return 0.0 if reward is None else min(1.0, max(0.0, reward / ceiling))


class Frame:
    """RGB picture that is drawn step by step; anything outside its borders is cut off.

    Raises:
        ImportError: Pillow is missing. The message contains the install command.
    """

    def __init__(self, height: int, width: int) -> None:
        with needed_by("render_mode 'rgb_array'"):
            from PIL import Image, ImageDraw, ImageFont
        self._image = Image.new("RGB", (width, height), PAPER)
        self._draw = ImageDraw.Draw(self._image)
        self._font = ImageFont.load_default(_FONT_SIZE)

    def write(self, text: str, top: int, left: int, colour: Colour = INK) -> None:
        """Write `text` with the top left corner of its capitals at pixel (top, left)."""
        self._draw.text((left, top + LETTER), text, colour, self._font, anchor="ls")

    def box(self, top: int, left: int, height: int, width: int, colour: Colour) -> None:
        """Fill a rectangle; all lengths are in pixels."""
        if height > 0 and width > 0:
            self._draw.rectangle((left, top, left + width - 1, top + height - 1), colour)

    def line(self, points: Sequence[tuple[int, int]], colour: Colour, thick: int) -> None:
        """Connect points (left, top) by straight lines `thick` pixels wide."""
        self._draw.line(points, colour, thick)

    def pixels(self) -> np.ndarray:
        """Return the picture as a uint8 array (height, width, 3)."""
        return np.array(self._image)


def width_of(text: str) -> int:
    """Return the width of `text` in pixels."""
    return len(text) * _ADVANCE


def rgb_array(headline: str, lines: Sequence[AgentLine], ceiling: float, widest: int) -> np.ndarray:
    """Draw a round as a uint8 array (height, width, 3); the arguments are those of `ansi`.

    Each agent has one line with its name, note and answer, and its reward as a bar and a number.
    """
    note = MARGIN + max(width_of(line.agent) for line in lines) + MARGIN
    answer = note + max(width_of(line.note) for line in lines) + MARGIN
    bar = answer + widest * _ADVANCE + MARGIN
    number = bar + BAR + MARGIN
    width = max(number + _NUMBER * _ADVANCE + MARGIN, _LEAST_WIDTH)
    frame = Frame(2 * MARGIN + LINE * (1 + len(lines)), width)
    frame.write(headline, MARGIN, MARGIN)
    for row, line in enumerate(lines, 1):
        top = MARGIN + LINE * row
        frame.write(line.agent, top, MARGIN)
        frame.write(line.note, top, note, QUIET)
        frame.box(top, bar, LETTER, BAR, TRACK)
        if line.action is not None and line.reward is not None:
            color = COLOURS[line.action % len(COLOURS)]
            frame.write(line.answer, top, answer, color)
            frame.box(top, bar, LETTER, round(BAR * _filled(line.reward, ceiling)), color)
            digits = f"{line.reward:.3f}"
            frame.write(digits if len(digits) <= _NUMBER else f"{line.reward:.1e}", top, number)
    return frame.pixels()
