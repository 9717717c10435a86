"""Problem, Grade and Attempt: a question, what an answer is worth, an agent's attempt."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any, TypeVar

import numpy as np

from srl_envs.errors import EnvConfigError
from srl_envs.games.maze_levels import SPLITS, TEST_SHARE
from srl_envs.text import TEXT_LENGTH
from srl_envs.validation import number_between

T = TypeVar("T")
QUESTION_LENGTH = TEXT_LENGTH * 3 // 4  # characters; the rest of what is told is feedback


@dataclass(frozen=True)
class Problem:
    """One question with what is needed to grade answers to it."""

    question: str
    """All that must be known to answer: it is told again on every turn."""
    answer: Any = None
    """What grading compares with; never shown to an agent."""
    difficulty: int = 1
    key: str | None = None
    """What the problem is, however it is worded: problems of one key are never in both splits.
    The question where not given."""
    data: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else the task wants to keep."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Plain data for the agent's infos, such as the family of the problem."""

    def __post_init__(self) -> None:
        if not isinstance(self.question, str) or not self.question.strip():
            raise EnvConfigError(f"a question must be a text, got {self.question!r}")
        if len(self.question) > QUESTION_LENGTH:
            raise EnvConfigError(
                f"a question may have {QUESTION_LENGTH} characters, this one has "
                f"{len(self.question)}: {self.question[:60]!r}..."
            )

    @property
    def identity(self) -> str:
        """16 hexadecimal digits for the problem's key."""
        key = self.question if self.key is None else self.key
        return blake2b(key.encode("utf-8", "backslashreplace"), digest_size=8).hexdigest()

    @property
    def split(self) -> str:
        """ "train" or "test": one key in five is held out, decided by the key alone."""
        return SPLITS[int(self.identity, 16) % TEST_SHARE == 0]


def pick(rng: np.random.Generator, things: Sequence[T]) -> T:
    """One of them, each as likely as any other."""
    return things[int(rng.integers(len(things)))]


@dataclass(frozen=True)
class Grade:
    """Grade of an answer."""

    score: float
    """0 to 1."""
    correct: bool
    """The task is solved."""
    feedback: str = ""
    """Told before the next try; it must not give the answer away."""
    finished: bool | None = None
    """No further turn: by default when the answer is correct."""
    info: Mapping[str, Any] = field(default_factory=dict)
    """Plain data for the agent's infos."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "score", number_between("score", self.score, 0.0, 1.0))

    @classmethod
    def right(cls, feedback: str = "That is right.") -> Grade:
        """Solved, for the full score."""
        return cls(1.0, True, feedback)

    @classmethod
    def wrong(cls, feedback: str = "That is not right.", score: float = 0.0) -> Grade:
        """Not solved; part of the score may have been earned."""
        return cls(score, False, feedback)


@dataclass
class Attempt:
    """One agent's attempt at one problem, from the question to its end."""

    problem: Problem
    answers: list[str] = field(default_factory=list)
    """As read, turn by turn; those that could not be read are left out."""
    grades: list[Grade] = field(default_factory=list)
    """One for each of `answers`."""
    memory: Any = None
    """The task's own, from `Task.begin`."""
    turns: int = 0
    """Turns so far."""
    best: float = 0.0
    """The best score so far."""
    solved: bool = False
    feedback: str = ""
