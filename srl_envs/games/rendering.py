"""Pictures of the text that a game draws, made with Pillow."""

from __future__ import annotations

import numpy as np

from srl_envs.loading import needed_by

COLUMNS = 80  # a picture has a multiple of so many columns
LETTER_WIDTH, LINE_HEIGHT, MARGIN = 6, 12, 6  # pixels before scaling
SCALE = 2
PAPER, INK = 250, 40  # gray levels


def picture(text: str) -> np.ndarray:
    """Return lines of text drawn as a uint8 array (height, width, 3), dark on light.

    The longest line, rounded up to a multiple of COLUMNS letters, determines the width.
    Characters outside Latin-1 are drawn as "?".

    Raises ImportError, with the install command, if Pillow is missing.
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
