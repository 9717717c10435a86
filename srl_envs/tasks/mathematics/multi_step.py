"""Generator of multi-step problems: one more step for each difficulty."""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from srl_envs.tasks.mathematics.formatting import between, problem
from srl_envs.tasks.problem import Problem, pick

FAMILY = "multi-step"


def draw(rng: np.random.Generator, difficulty: int) -> Problem:
    """A problem of difficulty 1 to 5, in `difficulty` + 1 steps."""
    size = (9, 20, 50, 99, 200)[difficulty - 1]
    start = between(rng, 2, size)
    value, told = Fraction(start), [f"Start with {start}."]
    before = ""
    for _ in range(difficulty + 1):
        # Never the same step twice running: doing and undoing would be no step at all.
        kind = pick(rng, [k for k in ("add", "subtract", "multiply", "divide") if k != before])
        before = kind
        value, words = _step(rng, value, kind, size)
        told.append(words)
    told.append("What is the result?")
    question = " ".join(told)
    return problem(FAMILY, difficulty, question, value, operations=difficulty + 1)


def _step(rng: np.random.Generator, value: Fraction, kind: str, size: int) -> tuple[Fraction, str]:
    if kind == "add":
        number = between(rng, 2, size)
        return value + number, f"Add {number}."
    if kind == "subtract":
        number = between(rng, 2, size)
        return value - number, f"Subtract {number}."
    factor = between(rng, 2, 9)
    if kind == "multiply":
        return value * factor, f"Multiply by {factor}."
    return value / factor, f"Divide by {factor}."
