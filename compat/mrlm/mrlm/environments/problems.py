"""Generators of problems as settings: which kinds, and how hard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class ProblemGenerator:
    """Problems drawn anew for every episode, of difficulty `difficulty_range[0]` to `[1]`."""

    difficulty_range: tuple[int, int] | None = None
    """The easiest and the hardest, 1 to 5; all where not given."""
    families: Sequence[str] | str | None = None
    """Kinds of problems, by srl_envs' names; all where not given."""

    def options(self) -> dict[str, Any]:
        """The arguments of srl_envs' environment that stand for it."""
        given: Mapping[str, Any] = {
            "difficulty": self.difficulty_range,
            "families": self.families,
        }
        return {name: value for name, value in given.items() if value is not None}
