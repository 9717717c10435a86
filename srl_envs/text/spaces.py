"""Text spaces, and the longest text allowed."""

from __future__ import annotations

import string
from typing import Any

import numpy as np
from gymnasium import spaces

ANSWER_LENGTH = 16_384  # characters: the length that TextEnv's action space declares
TEXT_LENGTH = 16_384  # characters an observation's text may have


class TextSpace(spaces.Text):
    """All strings of up to `max_length` characters, whatever the characters.

    Gymnasium's own Text admits letters and digits only and looks at each of them.
    """

    def __init__(self, max_length: int, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(max_length, min_length=0, charset=string.printable, seed=seed)

    def contains(self, x: Any) -> bool:
        """Whether `x` is a str within the length."""
        return isinstance(x, str) and len(x) <= self.max_length

    @property
    def is_np_flattenable(self) -> bool:
        """False: not every character has a number."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextSpace) and self.max_length == other.max_length

    def __repr__(self) -> str:
        return f"TextSpace({self.max_length})"
