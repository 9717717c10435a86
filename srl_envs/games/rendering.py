"""Drawings of one round of a game: plain text, or a picture of this text made with Pillow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from srl_envs.loading import needed_by

BAR_LENGTH = 20  # characters
COLUMNS = 40  # a picture has a multiple of so many columns
LETTER_WIDTH, LINE_HEIGHT, MARGIN = 6, 12, 6  # pixels before scaling
SCALE = 2
PAPER, INK = 250, 40  # gray levels


class AgentLine(NamedTuple):
    """One agent's line of a drawing. `reward` is None before the first round."""

    agent: str
    answer: str
    reward: float | None


def ansi(headline: str, lines: Sequence[AgentLine], ceiling: float, widest: int) -> str:
    """Draw a round as plain text, with one line per agent below the headline.

    `ceiling` is the reward that fills a bar, `widest` the number of characters of the longest
    possible answer. All agents' lines have the same length in every round.
    """
    width = max(len(line.agent) for line in lines)
    rows = [headline]
    for agent, answer, reward in lines:
        filled = 0.0 if reward is None else min(1.0, max(0.0, reward / ceiling))
        bar = "#" * round(BAR_LENGTH * filled)
        number = "" if reward is None else f"{reward:.3f}"
        rows.append(f"{agent:<{width}}  {answer:<{widest}}  {bar:<{BAR_LENGTH}}  {number:<8}")
    return "\n".join(rows) + "\n"


def picture(text: str) -> np.ndarray:
    """Draw lines of text as a uint8 array (height, width, 3), dark on light.

    Raises:
        ImportError: Pillow is missing. The message contains the install command.
    """
    with needed_by("render_mode 'rgb_array'"):
        from PIL import Image, ImageDraw, ImageFont
    lines = text.encode("latin-1", "replace").decode("latin-1").splitlines()
    columns = -(-max(map(len, lines)) // COLUMNS) * COLUMNS
    size = (columns * LETTER_WIDTH + 2 * MARGIN, len(lines) * LINE_HEIGHT + 2 * MARGIN)
    image = Image.new("L", size, PAPER)
    font, draw = ImageFont.load_default_imagefont(), ImageDraw.Draw(image)
    for number, line in enumerate(lines):
        draw.text((MARGIN, MARGIN + number * LINE_HEIGHT), line, INK, font)
    large = image.resize((SCALE * image.width, SCALE * image.height), Image.Resampling.NEAREST)
    return np.array(large.convert("RGB"))
