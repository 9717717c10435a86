"""Debate topics: motions given, from a file, or shipped."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from srl_envs.errors import EnvConfigError
from srl_envs.loading import read_rows
from srl_envs.tasks.problem import Problem
from srl_envs.validation import entries_of

SHIPPED = Path(__file__).with_name("topics.jsonl")
LONGEST = 500  # characters of a motion


def load_topics(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The motions of a JSONL file: a text, or an object with "motion" (or "topic"), on each line.

    Raises EnvConfigError, with the line's number, for anything else.
    """
    return checked_all(read_rows(path, "topics", _motion))


def _motion(said: Any, number: int) -> str:
    motion = said.get("motion", said.get("topic")) if isinstance(said, dict) else said
    return checked(motion)


def checked_all(motions: Sequence[str]) -> tuple[str, ...]:
    """The motions, each once; raises EnvConfigError where there is none or one is no text."""
    found = tuple(dict.fromkeys(checked(motion) for motion in entries_of("topics", motions)))
    if not found:
        raise EnvConfigError("topics must hold at least one motion, got none")
    return found


def checked(motion: object) -> str:
    """A motion as one line; raises EnvConfigError for what is none."""
    if not isinstance(motion, str) or not motion.strip() or len(motion) > LONGEST:
        raise EnvConfigError(
            f"a motion is a text of up to {LONGEST} characters, got {motion!r:.80}"
        )
    return " ".join(motion.split())


def split_of(motion: str) -> str:
    """ "train" or "test": one motion in five is held out, decided by its words alone."""
    return Problem(motion.casefold()).split
