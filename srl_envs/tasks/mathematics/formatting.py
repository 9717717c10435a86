"""Formatting of generated problems: numbers as written, and the Problem they make."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from srl_envs.tasks.problem import Problem, pick

Number = int | Fraction


def problem(
    family: str,
    difficulty: int,
    question: str,
    answer: Number | str,
    *,
    operations: int,
    key: str | None = None,
    **data: Any,
) -> Problem:
    """A generated problem; `operations` is how many steps of arithmetic its solution takes."""
    truth = answer if isinstance(answer, str) else written(answer)
    return Problem(
        question,
        truth,
        difficulty,
        key=None if key is None else f"{family}: {key}",
        data={"operations": operations, **data},
        info={"family": family},
    )


def written(value: Number) -> str:
    """A whole number or a fraction in lowest terms."""
    return str(Fraction(value))


def decimal(hundredths: int) -> str:
    """3.45 for 345, 3.4 for 340, 3 for 300."""
    sign, whole = "-" * (hundredths < 0), abs(hundredths)
    return f"{sign}{whole // 100}.{whole % 100:02d}".rstrip("0").rstrip(".")


def between(rng: np.random.Generator, low: int, high: int) -> int:
    """A whole number, both ends included."""
    return int(rng.integers(low, high + 1))


def nonzero(rng: np.random.Generator, size: int) -> int:
    """A whole number from -size to size that is not 0."""
    return pick(rng, (1, -1)) * between(rng, 1, size)


def joined(first: int | str, *signed: tuple[int, str]) -> str:
    """3x - 2y + 1 from "3x", (-2, "y"), (1, "")."""
    parts = [str(first)]
    for factor, name in signed:
        if factor:
            size = "" if abs(factor) == 1 and name else str(abs(factor))
            parts.append(f"{'-' if factor < 0 else '+'} {size}{name}")
    return " ".join(parts)


def times(factor: int, name: str = "x") -> str:
    """x, -x, 3x."""
    return {1: name, -1: f"-{name}"}.get(factor, f"{factor}{name}")
