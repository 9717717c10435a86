"""Spaces of texts, the longest text allowed, and the spaces of an environment's agents."""

from __future__ import annotations

import string
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces

ANSWER_LENGTH = 16_384  # characters: the length that TextEnv's action space declares
TEXT_LENGTH = 16_384  # characters an observation's text may have


class SpacesOfAgents:
    """The part of a PettingZoo environment that gives the spaces it holds by agent."""

    observation_spaces: Mapping[str, Any]
    action_spaces: Mapping[str, Any]

    def observation_space(self, agent: str) -> Any:
        """The agent's observation space, the same object on every call."""
        return self.observation_spaces[agent]

    def action_space(self, agent: str) -> Any:
        """The agent's action space, the same object on every call."""
        return self.action_spaces[agent]


class TextSpace(spaces.Text):
    """All strings of up to `max_length` characters, whatever the characters.

    Gymnasium's own Text admits letters and digits only and looks at each of them.
    """

    def __init__(self, max_length: int, seed: int | np.random.Generator | None = None) -> None:
        super().__init__(max_length, min_length=0, charset=string.printable, seed=seed)

    def contains(self, x: Any) -> bool:
        """Whether `x` is a str within the length."""
        return isinstance(x, str) and len(x) <= self.max_length

    def sample(self, mask: Any = None, probability: Any = None) -> str:
        """What Gymnasium draws, in a third of the time: it joins strings of one letter."""
        if mask is not None or probability is not None:
            return super().sample(mask, probability)
        letters = np.frombuffer("".join(self.character_list).encode("ascii"), np.uint8)
        length = self.np_random.integers(self.min_length, self.max_length + 1)
        equally = np.ones(len(letters)) / len(letters)
        drawn = self.np_random.choice(len(letters), size=length, p=equally)
        return letters[drawn].tobytes().decode("ascii")

    @property
    def is_np_flattenable(self) -> bool:
        """False: not every character has a number."""
        return False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, TextSpace) and self.max_length == other.max_length

    def __repr__(self) -> str:
        return f"TextSpace({self.max_length})"
