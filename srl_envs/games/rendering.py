"""Drawings of one round of a game: plain text, or an RGB array made with Pillow."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Scene:
    """One round of a game. All tuples are in agent order."""

    headline: str
    agents: tuple[str, ...]
    choices: tuple[int | None, ...]
    """Actions of the round; None before the first round."""
    words: tuple[str, ...]
    """Answers that name the actions."""
    rewards: tuple[float | None, ...]
    ceiling: float
    """Reward that fills a bar."""
    widest: int
    """Number of characters of the longest possible answer."""
    notes: tuple[str, ...] = ()
    """Label of each agent, such as its team; empty for no labels."""

    def bar(self, agent: int) -> float:
        """Return the share of its bar, from 0 to 1, that the reward of an agent number fills."""
        reward = self.rewards[agent]
        return 0.0 if reward is None else min(1.0, max(0.0, reward / self.ceiling))


def ansi(scene: Scene) -> str:
    """Draw the scene as lines of plain text, one per agent below the headline."""
    width = max(map(len, scene.agents))
    lines = [scene.headline]
    for agent, name in enumerate(scene.agents):
        reward = scene.rewards[agent]
        bar = "#" * round(BAR_LENGTH * scene.bar(agent))
        number = "" if reward is None else f"{reward:.3f}"
        word = f"{scene.words[agent]:<{scene.widest}}"
        lines.append(f"{name:<{width}}  {word}  {bar:<{BAR_LENGTH}}  {number}".rstrip())
    return "\n".join(lines) + "\n"


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


def rgb_array(scene: Scene) -> np.ndarray:
    """Draw the scene as a uint8 array (height, width, 3), of the same shape in all rounds.

    Each agent has one line with its name, note and action, and its reward as a bar and a number.
    """
    note = MARGIN + width_of(max(scene.agents, key=len)) + MARGIN
    word = note + max(map(width_of, scene.notes), default=0) + MARGIN
    bar = word + scene.widest * _ADVANCE + MARGIN
    number = bar + BAR + MARGIN
    width = max(number + _NUMBER * _ADVANCE + MARGIN, _LEAST_WIDTH)
    frame = Frame(2 * MARGIN + LINE * (1 + len(scene.agents)), width)
    frame.write(scene.headline, MARGIN, MARGIN)
    for agent, name in enumerate(scene.agents):
        top = MARGIN + LINE * (agent + 1)
        frame.write(name, top, MARGIN)
        if scene.notes:
            frame.write(scene.notes[agent], top, note, QUIET)
        frame.box(top, bar, LETTER, BAR, TRACK)
        choice, reward = scene.choices[agent], scene.rewards[agent]
        if choice is not None and reward is not None:
            colour = COLOURS[choice % len(COLOURS)]
            frame.write(scene.words[agent], top, word, colour)
            frame.box(top, bar, LETTER, round(BAR * scene.bar(agent)), colour)
            number_text = f"{reward:.3f}"
            frame.write(
                number_text if len(number_text) <= _NUMBER else f"{reward:.1e}", top, number
            )
    return frame.pixels()
