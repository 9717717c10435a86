"""Rendering of a round of a game, as text or as an RGB array (by Pillow)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from srl_envs.loading import needed_by

Colour = tuple[int, int, int]
Point = tuple[float, float]
"""Pixels from the left and from the top."""

PAPER, INK, TRACK, QUIET = (250, 250, 247), (40, 40, 45), (226, 226, 222), (128, 128, 132)
COLOURS: tuple[Colour, ...] = (
    (213, 94, 0), (0, 114, 178), (0, 158, 115), (204, 121, 167), (230, 159, 0),
    (86, 180, 233), (122, 90, 60), (106, 61, 154), (90, 140, 30), (96, 104, 112),
)  # fmt: skip
"""Colours of actions or agents, modulo their number; color-blind readers can tell the first five
apart."""

BAR_LENGTH = 20  # characters
LETTER = 10  # pixels: the height of a capital letter
_FONT_SIZE = 14  # pixels: of Pillow's own font, whose capitals are then that high
_ADVANCE = 8  # pixels: the room for a letter
LINE = 24  # pixels per line
MARGIN = 8  # pixels
_BAR = 160  # pixels
_REWARD_ROOM = 7  # characters
_LEAST_WIDTH = 480  # pixels: room for a headline


@dataclass(frozen=True)
class Scene:
    """One round of a game; all tuples are in the agents' order."""

    headline: str
    agents: tuple[str, ...]
    choices: tuple[int | None, ...]
    """Last actions; None before the first round."""
    rewards: tuple[float | None, ...]
    answers: tuple[str, ...]
    """Name of each action."""
    ceiling: float
    """Reward that fills a bar."""
    notes: tuple[str, ...] = ()
    """Label of each agent, such as its role or its team; may be empty."""


def ansi(scene: Scene) -> str:
    """Return the scene as lines of plain text."""
    width = max(map(len, scene.agents))
    widest = max(map(len, scene.answers))
    lines = [scene.headline.rstrip()]
    for agent, choice, reward in zip(scene.agents, scene.choices, scene.rewards, strict=True):
        word = "-" if choice is None else scene.answers[choice]
        bar = "#" * round(BAR_LENGTH * _share(reward, scene.ceiling))
        number = "" if reward is None else f"{reward:.3f}"
        lines.append(f"{agent:<{width}}  {word:<{widest}}  {bar:<{BAR_LENGTH}}  {number}".rstrip())
    return "\n".join(lines) + "\n"


class Frame:
    """RGB picture under construction; anything outside it is cut off.

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
        """Write `text` with the top left corner of its capitals at that pixel."""
        self._draw.text((left, top + LETTER), text, colour, self._font, anchor="ls")

    def box(self, top: int, left: int, height: int, width: int, colour: Colour) -> None:
        """Fill a rectangle."""
        if height > 0 and width > 0:
            self._draw.rectangle((left, top, left + width - 1, top + height - 1), colour)

    def line(self, points: Sequence[Point], colour: Colour, thick: int) -> None:
        """Draw straight lines from point to point, `thick` pixels wide."""
        self._draw.line(points, colour, thick)

    def pixels(self) -> np.ndarray:
        """Return the picture as a uint8 array (height, width, 3)."""
        return np.array(self._image)


def width_of(text: str) -> int:
    """Return the width of `text` in pixels."""
    return len(text) * _ADVANCE


def colour_of(number: int) -> Colour:
    """Return the color of an agent or action."""
    return COLOURS[number % len(COLOURS)]


def rgb_array(scene: Scene) -> np.ndarray:
    """Return the scene as a uint8 array (height, width, 3) of one size for the whole episode.

    Each agent has one line: name, note, action, and the reward as a bar and a number.
    """
    note = MARGIN + width_of("x" * (max(map(len, scene.agents)) + 1))
    word = note + max(map(width_of, scene.notes), default=0) + MARGIN
    bar = word + max(map(width_of, scene.answers)) + MARGIN
    number = bar + _BAR + MARGIN
    end = number + width_of("x" * _REWARD_ROOM) + MARGIN
    frame = Frame(2 * MARGIN + LINE * (1 + len(scene.agents)), max(end, _LEAST_WIDTH))
    frame.write(scene.headline.rstrip(), MARGIN, MARGIN)
    for agent, name in enumerate(scene.agents):
        top = MARGIN + LINE * (agent + 1)
        frame.write(name, top, MARGIN)
        if scene.notes:
            frame.write(scene.notes[agent], top, note, QUIET)
        frame.box(top, bar, LETTER, _BAR, TRACK)
        choice, reward = scene.choices[agent], scene.rewards[agent]
        if choice is not None and reward is not None:
            colour = colour_of(choice)
            frame.write(scene.answers[choice], top, word, colour)
            frame.box(top, bar, LETTER, round(_BAR * _share(reward, scene.ceiling)), colour)
            formats = (format(reward, form) for form in (".3f", ".0f", ".1e", ".0e"))
            frame.write(next(text for text in formats if len(text) <= _REWARD_ROOM), top, number)
    return frame.pixels()


def _share(reward: float | None, ceiling: float) -> float:
    """Return the share of a bar that the reward fills, from 0 to 1."""
    if reward is None or ceiling <= 0.0:
        return 0.0
    return min(1.0, max(0.0, reward / ceiling))
