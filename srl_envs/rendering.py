"""Pictures of one round, as text or as an RGB array, drawn with numpy alone."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Scene:
    """One round as it is shown; all tuples are in seat order."""

    headline: str
    seats: tuple[str, ...]
    choices: tuple[int | None, ...]
    """The last actions; None before anyone has chosen."""
    rewards: tuple[float | None, ...]
    answers: tuple[str, ...]
    """What each action is called."""
    ceiling: float
    """The reward that fills a bar."""


BAR_LENGTH = 20  # characters


def ansi(scene: Scene) -> str:
    """The scene as lines of plain text, the last one ended."""
    width = max(map(len, scene.seats))
    widest = max(map(len, scene.answers))
    lines = [scene.headline.rstrip()]
    for seat, choice, reward in zip(scene.seats, scene.choices, scene.rewards, strict=True):
        word = "-" if choice is None else scene.answers[choice]
        bar = "#" * round(BAR_LENGTH * _share(reward, scene.ceiling))
        number = "" if reward is None else f"{reward:.3f}"
        lines.append(f"{seat:<{width}}  {word:<{widest}}  {bar:<{BAR_LENGTH}}  {number}".rstrip())
    return "\n".join(lines) + "\n"


# Each glyph is 3 wide and 5 high: one octal digit a row, the top row first.
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 _./-:"
_DOTS = (
    "25755 65656 34443 65556 74647 74644 34553 55755 72227 11152 55655 44447 57755 "
    "75555 25552 65644 25563 65655 34216 72222 55557 55552 55775 55255 55222 71247 "
    "75557 26227 71747 71317 55711 74717 74757 71244 75757 75717 "
    "00000 00007 00002 11244 00700 02020"
)
_GLYPHS = dict(zip(_LETTERS, _DOTS.split(), strict=True))
_UNKNOWN = "77777"  # any other character: a filled block

PAPER, INK, _TRACK = (250, 250, 247), (40, 40, 45), (226, 226, 222)
COLOURS = ((213, 94, 0), (0, 114, 178), (0, 158, 115), (204, 121, 167), (230, 159, 0))
"""By action, modulo their number; told apart also without seeing red and green."""

_SCALE = 2  # pixels per font dot
LINE = 18  # pixels per seat
MARGIN = 8  # pixels
_BAR = 160  # pixels


def rgb_array(scene: Scene) -> np.ndarray:
    """The scene as a uint8 array (height, width, 3): a headline, then a line per seat."""
    glyph = width_of("x")
    name_width = max(map(len, scene.seats)) * glyph
    word_width = max(map(len, scene.answers)) * glyph
    bar_left = 4 * MARGIN + name_width + word_width
    width = max(bar_left + _BAR + 6 * glyph, width_of(scene.headline)) + 2 * MARGIN
    height = 2 * MARGIN + LINE * (len(scene.seats) + 1)
    frame = np.empty((height, width, 3), dtype=np.uint8)
    frame[:] = PAPER
    write(frame, scene.headline.rstrip(), MARGIN, MARGIN, INK)
    lines = zip(scene.seats, scene.choices, scene.rewards, strict=True)
    for row, (seat, choice, reward) in enumerate(lines, start=1):
        top = MARGIN + row * LINE
        write(frame, seat, top, MARGIN, INK)
        frame[top : top + 5 * _SCALE, bar_left : bar_left + _BAR] = _TRACK
        if choice is None or reward is None:
            continue
        colour = COLOURS[choice % len(COLOURS)]
        write(frame, scene.answers[choice], top, 2 * MARGIN + name_width, colour)
        filled = round(_BAR * _share(reward, scene.ceiling))
        frame[top : top + 5 * _SCALE, bar_left : bar_left + filled] = colour
        write(frame, f"{reward:.3f}", top, bar_left + _BAR + MARGIN, INK)
    return frame


def width_of(text: str) -> int:
    """How many pixels wide `text` is written."""
    return len(text) * 4 * _SCALE


def write(frame: np.ndarray, text: str, top: int, left: int, colour: tuple[int, int, int]) -> None:
    """Write `text` into the frame, its top left corner at that pixel."""
    for place, letter in enumerate(text.upper()):
        rows = _GLYPHS.get(letter, _UNKNOWN)
        dots = np.array([[int(row) >> bit & 1 for bit in (2, 1, 0)] for row in rows], dtype=bool)
        dots = dots.repeat(_SCALE, axis=0).repeat(_SCALE, axis=1)
        x = left + place * 4 * _SCALE
        frame[top : top + 5 * _SCALE, x : x + 3 * _SCALE][dots] = colour


def _share(reward: float | None, ceiling: float) -> float:
    """How much of a bar the reward fills, from 0 to 1."""
    if reward is None or ceiling <= 0.0:
        return 0.0
    return min(1.0, max(0.0, reward / ceiling))
