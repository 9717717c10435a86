"""Generators of algebra problems: equations, inequalities and expansions.

1: x + a = b; 2: ax + b = c and inequalities; 3: the unknown on both sides; 4: quadratics with whole
roots, expansions, two unknowns; 5: quadratics with fractions, inequalities from two sides, cubes.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from srl_envs.tasks.mathematics.formatting import (
    between,
    joined,
    nonzero,
    problem,
    times,
    written,
)
from srl_envs.tasks.problem import Problem, pick

FAMILY = "algebra"
FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}


def draw(rng: np.random.Generator, difficulty: int) -> Problem:
    """A problem of difficulty 1 to 5."""
    kinds = (
        (_shifted,),
        (_linear, _inequality),
        (_both_sides, _inequality_both_sides),
        (_quadratic, _expansion, _system),
        (_fraction_quadratic, _between, _cubic_expansion),
    )[difficulty - 1]
    made: Problem = pick(rng, kinds)(rng, difficulty)
    return made


def _shifted(rng: np.random.Generator, level: int) -> Problem:
    x, shift = between(rng, 0, 20), nonzero(rng, 20)
    asked = f"Solve for x: {joined('x', (shift, ''))} = {x + shift}"
    return problem(FAMILY, level, asked, x, operations=1)


def _linear(rng: np.random.Generator, level: int) -> Problem:
    factor, x, shift = between(rng, 2, 9), nonzero(rng, 12), nonzero(rng, 30)
    asked = f"Solve for x: {joined(times(factor), (shift, ''))} = {factor * x + shift}"
    return problem(FAMILY, level, asked, x, operations=2)


def _inequality(rng: np.random.Generator, level: int) -> Problem:
    factor, bound, shift = between(rng, 2, 9), nonzero(rng, 12), nonzero(rng, 30)
    sign = pick(rng, tuple(FLIPPED))
    shown = f"{joined(times(factor), (shift, ''))} {sign} {factor * bound + shift}"
    return problem(
        FAMILY, level, f"Solve the inequality for x: {shown}", f"x {sign} {bound}", operations=2
    )


def _both_sides(rng: np.random.Generator, level: int) -> Problem:
    left, right = nonzero(rng, 12), nonzero(rng, 12)
    if left == right:
        left += 13
    one, other = nonzero(rng, 40), nonzero(rng, 40)
    asked = f"Solve for x: {joined(times(left), (one, ''))} = {joined(times(right), (other, ''))}"
    return problem(FAMILY, level, asked, Fraction(other - one, left - right), operations=3)


def _inequality_both_sides(rng: np.random.Generator, level: int) -> Problem:
    left, right = nonzero(rng, 12), nonzero(rng, 12)
    if left == right:
        left += 13
    one, other = nonzero(rng, 40), nonzero(rng, 40)
    sign = pick(rng, tuple(FLIPPED))
    bound = Fraction(other - one, left - right)
    solved = sign if left > right else FLIPPED[sign]
    shown = f"{joined(times(left), (one, ''))} {sign} {joined(times(right), (other, ''))}"
    asked = f"Solve the inequality for x: {shown}"
    return problem(FAMILY, level, asked, f"x {solved} {written(bound)}", operations=3)


def _quadratic(rng: np.random.Generator, level: int) -> Problem:
    one, other = nonzero(rng, 12), nonzero(rng, 12)
    shown = joined("x^2", (-(one + other), "x"), (one * other, ""))
    return _roots(level, f"{shown} = 0", Fraction(one), Fraction(other), operations=5)


def _fraction_quadratic(rng: np.random.Generator, level: int) -> Problem:
    a, c = between(rng, 2, 7), between(rng, 2, 7)
    b, d = nonzero(rng, 25), nonzero(rng, 25)  # (ax - b)(cx - d)
    shown = joined(times(a * c, "x^2"), (-(a * d + b * c), "x"), (b * d, ""))
    return _roots(level, f"{shown} = 0", Fraction(b, a), Fraction(d, c), operations=8)


def _roots(level: int, shown: str, one: Fraction, other: Fraction, *, operations: int) -> Problem:
    answer = ", ".join(written(root) for root in sorted({one, other}))
    asked = f"Find all real x, separated by commas: {shown}"
    return problem(FAMILY, level, asked, answer, operations=operations)


def _expansion(rng: np.random.Generator, level: int) -> Problem:
    a, c, b, d = between(rng, 2, 6), between(rng, 2, 6), nonzero(rng, 12), nonzero(rng, 12)
    shown = f"({joined(times(a), (b, ''))})({joined(times(c), (d, ''))})"
    answer = joined(times(a * c, "x^2"), (a * d + b * c, "x"), (b * d, ""))
    return problem(
        FAMILY, level, f"Expand and collect terms: {shown}", answer, operations=5, expanded=True
    )


def _cubic_expansion(rng: np.random.Generator, level: int) -> Problem:
    a, b, c, d, e = between(rng, 2, 6), *(nonzero(rng, 12) for _ in range(4))
    shown = f"({joined(times(a), (b, ''))})({joined(times(c, 'x^2'), (d, 'x'), (e, ''))})"
    answer = joined(times(a * c, "x^3"), (a * d + b * c, "x^2"), (a * e + b * d, "x"), (b * e, ""))
    return problem(
        FAMILY, level, f"Expand and collect terms: {shown}", answer, operations=9, expanded=True
    )


def _system(rng: np.random.Generator, level: int) -> Problem:
    x, y = nonzero(rng, 9), nonzero(rng, 9)
    while True:
        a, b, c, d = (nonzero(rng, 7) for _ in range(4))
        if a * d != b * c:
            break
    first = f"{joined(times(a), (b, 'y'))} = {a * x + b * y}"
    second = f"{joined(times(c), (d, 'y'))} = {c * x + d * y}"
    asked = f"Solve {first} and {second}. Answer as (x, y)."
    return problem(FAMILY, level, asked, f"({x}, {y})", operations=7)


def _between(rng: np.random.Generator, level: int) -> Problem:
    factor, low = between(rng, 2, 9), nonzero(rng, 40)
    high, shift = low + between(rng, 10, 90), nonzero(rng, 90)
    below, above = pick(rng, ("<", "<=")), pick(rng, ("<", "<="))
    negative = pick(rng, (True, False))
    middle = joined(times(-factor if negative else factor), (shift, ""))
    ends = [Fraction(end - shift, -factor if negative else factor) for end in (low, high)]
    if negative:
        ends, below_sign, above_sign = ends[::-1], above, below
    else:
        below_sign, above_sign = below, above
    answer = f"{written(ends[0])} {below_sign} x {above_sign} {written(ends[1])}"
    asked = f"Solve for x, written as a < x < b: {low} {below} {middle} {above} {high}"
    return problem(FAMILY, level, asked, answer, operations=8)
