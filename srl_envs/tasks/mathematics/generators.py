"""Generators of mathematical problems.

The answer is computed by exact arithmetic, and never read from the question.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType
from typing import Any

import numpy as np

from srl_envs.tasks.base import Problem, pick

Number = int | Fraction

FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
NAMES = ("Ada", "Ben", "Chloe", "David", "Elif", "Farid", "Grace", "Hiro", "Ines", "Jonas")
THINGS = ("apples", "books", "cards", "coins", "marbles", "pencils", "shells", "stamps")


def arithmetic(rng: np.random.Generator, difficulty: int) -> Problem:
    """Draw a sum, difference, product or quotient.

    Difficulty 1: two one-digit numbers, added or subtracted; 2: two-digit sums, tables, exact
    division; 3: three numbers, products before sums; 4: brackets, decimals, fractions; 5: fractions
    in brackets, powers.
    """
    return (_digits, _tables, _three, _brackets, _fractions)[difficulty - 1](rng)


def _asked(
    level: int, expression: str, answer: int | Fraction, operations: int, key: str = ""
) -> Problem:
    return problem(
        "arithmetic",
        level,
        f"{expression} = ?",
        answer,
        operations=operations,
        key=key or expression,
    )


def _digits(rng: np.random.Generator) -> Problem:
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
    return f"{min(one, other)} {operator} {max(one, other)}"


def algebra(rng: np.random.Generator, difficulty: int) -> Problem:
    """Draw an equation, an inequality or an expansion.

    Difficulty 1: x + a = b; 2: ax + b = c and inequalities; 3: the unknown on both sides; 4:
    quadratics with whole roots, expansions, two unknowns; 5: quadratics with fractions,
    inequalities with two bounds, cubes.
    """
    kinds = (
        (_shifted,),
        (_linear, _inequality),
        (_both_sides, _inequality_both_sides),
        (_quadratic, _expansion, _system),
        (_fraction_quadratic, _between, _cubic_expansion),
    )[difficulty - 1]
    drawn: Problem = pick(rng, kinds)(rng, difficulty)
    return drawn


def _shifted(rng: np.random.Generator, level: int) -> Problem:
    x, shift = between(rng, 0, 20), nonzero(rng, 20)
    asked = f"Solve for x: {joined('x', (shift, ''))} = {x + shift}"
    return problem("algebra", level, asked, x, operations=1)


def _linear(rng: np.random.Generator, level: int) -> Problem:
    factor, x, shift = between(rng, 2, 9), nonzero(rng, 12), nonzero(rng, 30)
    asked = f"Solve for x: {joined(times(factor), (shift, ''))} = {factor * x + shift}"
    return problem("algebra", level, asked, x, operations=2)


def _inequality(rng: np.random.Generator, level: int) -> Problem:
    factor, bound, shift = between(rng, 2, 9), nonzero(rng, 12), nonzero(rng, 30)
    sign = pick(rng, tuple(FLIPPED))
    shown = f"{joined(times(factor), (shift, ''))} {sign} {factor * bound + shift}"
    return problem(
        "algebra", level, f"Solve the inequality for x: {shown}", f"x {sign} {bound}", operations=2
    )


def _both_sides(rng: np.random.Generator, level: int) -> Problem:
    left, right = nonzero(rng, 12), nonzero(rng, 12)
    if left == right:
        left += 13
    one, other = nonzero(rng, 40), nonzero(rng, 40)
    asked = f"Solve for x: {joined(times(left), (one, ''))} = {joined(times(right), (other, ''))}"
    return problem("algebra", level, asked, Fraction(other - one, left - right), operations=3)


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
    return problem("algebra", level, asked, f"x {solved} {written(bound)}", operations=3)


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
    return problem("algebra", level, asked, answer, operations=operations)


def _expansion(rng: np.random.Generator, level: int) -> Problem:
    a, c, b, d = between(rng, 2, 6), between(rng, 2, 6), nonzero(rng, 12), nonzero(rng, 12)
    shown = f"({joined(times(a), (b, ''))})({joined(times(c), (d, ''))})"
    answer = joined(times(a * c, "x^2"), (a * d + b * c, "x"), (b * d, ""))
    return problem(
        "algebra", level, f"Expand and collect terms: {shown}", answer, operations=5, expanded=True
    )


def _cubic_expansion(rng: np.random.Generator, level: int) -> Problem:
    a, b, c, d, e = between(rng, 2, 6), *(nonzero(rng, 12) for _ in range(4))
    shown = f"({joined(times(a), (b, ''))})({joined(times(c, 'x^2'), (d, 'x'), (e, ''))})"
    answer = joined(times(a * c, "x^3"), (a * d + b * c, "x^2"), (a * e + b * d, "x"), (b * e, ""))
    return problem(
        "algebra", level, f"Expand and collect terms: {shown}", answer, operations=9, expanded=True
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
    return problem("algebra", level, asked, f"({x}, {y})", operations=7)


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
    return problem("algebra", level, asked, answer, operations=8)


def word_problems(rng: np.random.Generator, difficulty: int) -> Problem:
    """Draw a short story with a number to find.

    Difficulty 1: one sum or difference; 2: one product or quotient; 3: two operations; 4: prices
    with change, rates; 5: percentages, shares and speeds in three operations or more.
    """
    stories = (
        (_more, _left),
        (_boxes, _shared),
        (_boxes_and_more, _compared),
        (_change, _rate),
        (_discount, _shares, _journey),
    )[difficulty - 1]
    told: Problem = pick(rng, stories)(rng, difficulty)
    return told


def _dollars(cents: int) -> str:
    return f"{cents // 100}.{cents % 100:02d}".removesuffix(".00")


def _two(rng: np.random.Generator) -> tuple[str, str, str]:
    first, second = rng.choice(len(NAMES), size=2, replace=False)
    return NAMES[int(first)], NAMES[int(second)], pick(rng, THINGS)


def _more(rng: np.random.Generator, level: int) -> Problem:
    who, giver, things = _two(rng)
    had, got = between(rng, 2, 30), between(rng, 2, 30)
    asked = (
        f"{who} has {had} {things}. {giver} gives {who} {got} more. "
        f"How many {things} does {who} have now?"
    )
    return problem("word problems", level, asked, had + got, operations=1, key=f"{had} plus {got}")


def _left(rng: np.random.Generator, level: int) -> Problem:
    who, other, things = _two(rng)
    gone = between(rng, 2, 30)
    had = gone + between(rng, 1, 30)
    asked = (
        f"{who} has {had} {things} and gives {gone} of them to {other}. How many {things} are left?"
    )
    return problem(
        "word problems", level, asked, had - gone, operations=1, key=f"{had} less {gone}"
    )


def _boxes(rng: np.random.Generator, level: int) -> Problem:
    who, _, things = _two(rng)
    boxes, each = between(rng, 13, 40), between(rng, 13, 24)
    asked = f"{who} packs {boxes} boxes with {each} {things} in each. How many {things} is that?"
    return problem(
        "word problems", level, asked, boxes * each, operations=2, key=f"{boxes} times {each}"
    )


def _shared(rng: np.random.Generator, level: int) -> Problem:
    who, _, things = _two(rng)
    friends, each = between(rng, 3, 12), between(rng, 13, 40)
    asked = (
        f"{who} shares {friends * each} {things} equally among {friends} friends. "
        f"How many {things} does each friend get?"
    )
    key = f"{friends * each} among {friends}"
    return problem("word problems", level, asked, each, operations=2, key=key)


def _boxes_and_more(rng: np.random.Generator, level: int) -> Problem:
    who, other, things = _two(rng)
    boxes, each, more = between(rng, 11, 30), between(rng, 12, 24), between(rng, 20, 99)
    asked = (
        f"{who} has {boxes} boxes of {each} {things}. {other} brings {more} {things} more. "
        f"How many {things} are there in all?"
    )
    key = f"{boxes} times {each} plus {more}"
    return problem("word problems", level, asked, boxes * each + more, operations=3, key=key)


def _compared(rng: np.random.Generator, level: int) -> Problem:
    who, other, things = _two(rng)
    own, factor, less = between(rng, 100, 250), between(rng, 3, 9), between(rng, 11, 99)
    asked = (
        f"{who} has {own} {things}. {other} has {factor} times as many, less {less}. "
        f"How many {things} do they have together?"
    )
    key = f"{own} and {factor} times less {less}"
    return problem("word problems", level, asked, own + factor * own - less, operations=3, key=key)


def _change(rng: np.random.Generator, level: int) -> Problem:
    who, _, things = _two(rng)
    count, price, other = between(rng, 3, 12), between(rng, 105, 999), between(rng, 105, 1999)
    spent = count * price + other
    paid = (spent // 1000 + between(rng, 1, 5)) * 10
    asked = (
        f"{who} buys {count} {things} at {_dollars(price)} dollars each and a bag for "
        f"{_dollars(other)} dollars, and pays with {paid} dollars. How many dollars does {who} get "
        "back?"
    )
    change = Fraction(paid * 100 - spent, 100)
    key = f"{paid} less {count} times {price} less {other}"
    return problem("word problems", level, asked, change, operations=4, key=key)


def _rate(rng: np.random.Generator, level: int) -> Problem:
    who, other, things = _two(rng)
    hours, one, two = between(rng, 11, 40), between(rng, 12, 60), between(rng, 12, 60)
    start = between(rng, 100, 500)
    asked = (
        f"A shop has {start} {things}. Every hour {who} brings {one} more and {other} brings {two} "
        f"more. How many {things} does the shop have after {hours} hours?"
    )
    key = f"{start} plus {hours} times {min(one, two)} and {max(one, two)}"
    return problem(
        "word problems", level, asked, start + hours * (one + two), operations=4, key=key
    )


def _discount(rng: np.random.Generator, level: int) -> Problem:
    who, _, things = _two(rng)
    while True:
        count, price = between(rng, 12, 60), between(rng, 11, 95)
        off, tax = 5 * between(rng, 2, 12), between(rng, 2, 19)
        total = Fraction(count * price * (100 - off) * (100 + tax), 10_000)
        if (100 * total).denominator == 1:  # Prices are whole cents.
            break
    asked = (
        f"{who} orders {count} {things} at {price} dollars each. The order is reduced by {off} "
        f"percent, and then {tax} percent tax is added. How many dollars does {who} pay?"
    )
    key = f"{count} times {price} off {off} tax {tax}"
    return problem("word problems", level, asked, total, operations=7, key=key)


def _shares(rng: np.random.Generator, level: int) -> Problem:
    who, other, things = _two(rng)
    below, part = between(rng, 3, 9), between(rng, 2, 5)
    unit, more = between(rng, 101, 300), between(rng, 101, 300)
    total = below * part * unit
    kept = total - total // below
    asked = (
        f"{who} has {total} {things} and gives 1/{below} of them to {other}. Then {who} sells "
        f"1/{part} of what is left and buys {more} more. How many {things} does {who} have now?"
    )
    key = f"{total} less 1/{below} less 1/{part} plus {more}"
    answer = Fraction(kept * (part - 1), part) + more
    return problem("word problems", level, asked, answer, operations=6, key=key)


def _journey(rng: np.random.Generator, level: int) -> Problem:
    who, _, _ = _two(rng)
    slow, fast = between(rng, 30, 59), between(rng, 60, 120)
    first, second = between(rng, 2, 9), between(rng, 2, 9)
    asked = (
        f"{who} travels {first} hours at {slow} km per hour and then {second} hours at {fast} km "
        f"per hour, with a rest of {(rest := between(rng, 11, 59))} minutes in between. What is "
        f"{who}'s mean speed in km per hour over the whole time, the rest included?"
    )
    answer = Fraction(60 * (first * slow + second * fast), 60 * (first + second) + rest)
    key = f"{first} at {slow}, {second} at {fast}, rest {rest}"
    return problem("word problems", level, asked, answer, operations=7, key=key)


def multi_step(rng: np.random.Generator, difficulty: int) -> Problem:
    """Draw a problem of `difficulty` + 1 steps of arithmetic."""
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
    return problem("multi-step", difficulty, question, value, operations=difficulty + 1)


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
    """Return a problem whose solution takes `operations` steps of arithmetic."""
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
    """Return a whole number or a fraction in lowest terms."""
    return str(Fraction(value))


def decimal(hundredths: int) -> str:
    """Return 3.45 for 345, 3.4 for 340, 3 for 300."""
    sign, whole = "-" * (hundredths < 0), abs(hundredths)
    return f"{sign}{whole // 100}.{whole % 100:02d}".rstrip("0").rstrip(".")


def between(rng: np.random.Generator, low: int, high: int) -> int:
    """Draw a whole number, both ends included."""
    return int(rng.integers(low, high + 1))


def nonzero(rng: np.random.Generator, size: int) -> int:
    """Draw a whole number from -size to size that is not 0."""
    return pick(rng, (1, -1)) * between(rng, 1, size)


def joined(first: int | str, *signed: tuple[int, str]) -> str:
    """Return 3x - 2y + 1 for "3x", (-2, "y"), (1, "")."""
    parts = [str(first)]
    for factor, name in signed:
        if factor:
            size = "" if abs(factor) == 1 and name else str(abs(factor))
            parts.append(f"{'-' if factor < 0 else '+'} {size}{name}")
    return " ".join(parts)


def times(factor: int, name: str = "x") -> str:
    """Return x, -x or 3x."""
    return {1: name, -1: f"-{name}"}.get(factor, f"{factor}{name}")


FAMILIES: Mapping[str, Callable[[np.random.Generator, int], Problem]] = MappingProxyType(
    {
        "arithmetic": arithmetic,
        "algebra": algebra,
        "word problems": word_problems,
        "multi-step": multi_step,
    }
)
"""Family -> function that draws a problem of a difficulty from 1 to 5."""
