"""Generators of arithmetic problems: sums, differences, products and quotients.

1: two one-digit numbers, added or subtracted; 2: two-digit sums, tables, exact division;
3: three numbers, products before sums; 4: brackets, decimals, fractions;
5: fractions in brackets, powers.
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from srl_envs.tasks.mathematics.formatting import between, decimal, problem
from srl_envs.tasks.problem import Problem, pick

FAMILY = "arithmetic"


def draw(rng: np.random.Generator, difficulty: int) -> Problem:
    """A problem of difficulty 1 to 5."""
    return (_digits, _tables, _three, _brackets, _fractions)[difficulty - 1](rng)


def _asked(
    level: int, expression: str, answer: int | Fraction, operations: int, key: str = ""
) -> Problem:
    return problem(
        FAMILY, level, f"{expression} = ?", answer, operations=operations, key=key or expression
    )


def _digits(rng: np.random.Generator) -> Problem:
    """The sum of two one-digit numbers, or a difference that is not below zero."""
    one, other = between(rng, 0, 9), between(rng, 0, 9)
    if pick(rng, "+-") == "+":
        return _asked(1, f"{one} + {other}", one + other, 1, _pair(one, other, "+"))
    one, other = max(one, other), min(one, other)
    return _asked(1, f"{one} - {other}", one - other, 1)


def _tables(rng: np.random.Generator) -> Problem:
    operator = pick(rng, "+-*/")
    if operator == "*":
        one, other = between(rng, 2, 12), between(rng, 2, 12)
        return _asked(2, f"{one} * {other}", one * other, 1, _pair(one, other, "*"))
    if operator == "/":
        divisor, result = between(rng, 2, 12), between(rng, 2, 12)
        return _asked(2, f"{divisor * result} / {divisor}", result, 1)
    one, other = between(rng, 10, 99), between(rng, 10, 99)
    if operator == "+":
        return _asked(2, f"{one} + {other}", one + other, 1, _pair(one, other, "+"))
    return _asked(2, f"{one} - {other}", one - other, 1)


def _three(rng: np.random.Generator) -> Problem:
    start, one, other = between(rng, 10, 99), between(rng, 2, 20), between(rng, 11, 30)
    if pick(rng, (True, False)):
        return _asked(3, f"{start} + {one} * {other}", start + one * other, 2)
    return _asked(3, f"{one} * {other} - {start}", one * other - start, 2)


def _brackets(rng: np.random.Generator) -> Problem:
    kind = between(rng, 0, 2)
    if kind == 0:
        a, b, c, d = (between(rng, 11, 60) for _ in range(4))
        return _asked(4, f"({a} - {b}) * ({c} + {d})", (a - b) * (c + d), 3)
    if kind == 1:
        a, b, c = (between(rng, 101, 9999) for _ in range(3))
        shown = f"{decimal(a)} + {decimal(b)} - {decimal(c)}"
        return _asked(4, shown, Fraction(a + b - c, 100), 3)
    (a, b), (c, d) = _fraction(rng, 9), _fraction(rng, 9)
    return _asked(4, f"{a}/{b} + {c}/{d}", Fraction(a, b) + Fraction(c, d), 4)


def _fractions(rng: np.random.Generator) -> Problem:
    (a, b), (c, d), (e, f) = (_fraction(rng, 15) for _ in range(3))
    if pick(rng, (True, False)):
        shown = f"({a}/{b} + {c}/{d}) * {e}/{f}"
        return _asked(5, shown, (Fraction(a, b) + Fraction(c, d)) * Fraction(e, f), 6)
    base, exponent = between(rng, 2, 9), between(rng, 2, 4)
    factor, less = between(rng, 11, 99), between(rng, 100, 999)
    shown = f"{factor} * ({base}^{exponent} - {less}) / {f}"
    return _asked(5, shown, Fraction(factor * (base**exponent - less), f), 5 + exponent - 1)


def _fraction(rng: np.random.Generator, size: int) -> tuple[int, int]:
    below = between(rng, 2, size)
    return between(rng, 1, 2 * below), below


def _pair(one: int, other: int, operator: str) -> str:
    """The same for both orders."""
    return f"{min(one, other)} {operator} {max(one, other)}"
