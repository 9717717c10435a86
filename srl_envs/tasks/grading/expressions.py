"""Comparison of mathematical expressions: equal for all values of their variables or not.

Exact arithmetic on fractions; where roots, powers, pi or functions make that impossible,
hundreds of digits by mpmath, at several points where there are variables. They are more than lie
between the largest and the smallest numbers allowed, so nothing is lost beside a larger summand,
and what cancels is 0. Numbers that grow too large on the way are refused before they are computed,
so that `9**9**9**9` costs nothing.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

from srl_envs.loading.extras import needed_by
from srl_envs.tasks.grading.expression_parser import BITS, Tree, Unreadable, bounded, parse, plain

__all__ = [
    "Tree", "Unreadable", "exact", "holds_a_sum", "names", "number", "parse", "plain", "same",
    "terms",
]  # fmt: skip

RANGE = 120  # decimal places before and after the point that such a number may reach
DIGITS = 3 * RANGE + 100  # of it
FAR = 500  # a variable's size, above which many an expression grows too large
CLOSE = 50  # digits in which two must agree


def number(text: str) -> Fraction:
    """The number that a text writes out: 12, -3.50, 1,234, 3/4, 1 1/2, 2.5e3, 2.5*10^3 and the
    same in LaTeX, but nothing that is still to be worked out. Raises Unreadable.
    """
    tree = parse(text)
    sign = 1
    while tree[0] == "negative":
        sign, tree = -sign, tree[1]
    parts: tuple[Tree, ...] = (tree,)
    if tree[0] == "/":
        parts = tree[1:]
    elif tree[0] == "*" and tree[2][:2] == ("^", ("number", Fraction(10))):
        parts = tree[1], tree[2][2]  # 2.5 * 10^3
    plain_parts = [part[1] if part[0] == "negative" else part for part in parts]
    if not all(part[0] == "number" for part in plain_parts):
        raise Unreadable("it is no number that is written out")
    return sign * exact(tree)


def names(tree: Tree) -> frozenset[str]:
    """The variables in it."""
    found, left = set(), [tree]
    while left:
        kind, *parts = left.pop()
        if kind == "name":
            found.add(parts[0])
        left += [part for part in parts if isinstance(part, tuple)]
    return frozenset(found)


def terms(tree: Tree) -> tuple[Tree, ...]:
    """What is added and subtracted in it, signs left out."""
    if tree[0] in ("+", "-"):
        return terms(tree[1]) + terms(tree[2])
    return terms(tree[1]) if tree[0] == "negative" else (tree,)


def holds_a_sum(tree: Tree) -> bool:
    """Whether anything is added or subtracted anywhere in it."""
    parts = [part for part in tree[1:] if isinstance(part, tuple)]
    return tree[0] in ("+", "-") or any(map(holds_a_sum, parts))


def exact(tree: Tree, at: Mapping[str, Fraction] | None = None) -> Fraction:
    """Its value as a fraction, variables replaced by those of `at`.

    Raises Unreadable where it is none (a root, pi), divides by zero, or grows too large.
    """
    value: Fraction = _evaluated(tree, _FRACTIONS, at or {})
    return value


def same(one: Tree, other: Tree) -> bool:
    """Whether two expressions are equal, for all values of their variables.

    Both must be defined over the real numbers at the same points; where neither is at any, they
    are compared as complex ones. Raises ImportError where roots, pi or functions need mpmath and
    it is not installed.
    """
    variables = sorted(names(one) | names(other))
    try:
        found = _agree(one, other, variables, exact, lambda left, right: bool(left == right))
    except Unreadable:
        found = None
        for real in (True, False):
            if found is None:
                found = _agree_in_digits(one, other, variables, real)
    return bool(found)


def _agree(
    one: Tree,
    other: Tree,
    variables: list[str],
    value: Callable[[Tree, dict[str, Fraction]], Any],
    equal: Callable[[Any, Any], bool],
) -> bool | None:
    """Whether two are equal, and undefined at the same points; None where they always are."""
    agreed = None
    for at in _points(variables):
        sides = []
        for tree in (one, other):
            try:
                sides.append(value(tree, at))
            except (ZeroDivisionError, _TooLarge) as error:
                sides.append(type(error))
        fates = {side for side in sides if isinstance(side, type)}
        if one == other and ZeroDivisionError not in fates:
            return True  # written alike, and defined
        if not fates:
            if not equal(*sides):
                return False
            agreed = True
        elif sides[0] is not sides[1] and not (_TooLarge in fates and _is_far(at)):
            return False  # else whatever is too large but where the other was met would be right
    return agreed


def _agree_in_digits(one: Tree, other: Tree, variables: list[str], real: bool) -> bool | None:
    numbers = _digits(real)

    def value(tree: Tree, at: Mapping[str, Fraction]) -> Any:
        try:
            return _evaluated(tree, numbers, {name: numbers.lift(at[name]) for name in at})
        except Unreadable as error:
            raise _TooLarge(str(error)) from error

    def equal(left: Any, right: Any) -> bool:
        return bool(abs(left - right) <= numbers.tiny * max(abs(left), abs(right)))

    return _agree(one, other, variables, value, equal)


def _is_far(at: Mapping[str, Fraction]) -> bool:
    """Whether what is no larger than its variables may be too large on the way, as in ln(e^x)."""
    return any(abs(value) > FAR for value in at.values())


class _TooLarge(ArithmeticError):
    """At this point the numbers grow too large, or too small, to be compared."""


def _points(variables: list[str]) -> Iterator[dict[str, Fraction]]:
    """Values for the variables, always the same: arbitrary fractions, first between 2 and 13,
    then of all signs, near 0 and large, and whole numbers."""
    if not variables:
        yield {}
        return

    def point(place: int, signed: bool, scale: Fraction, whole: bool = False) -> Any:
        values = {}
        for index, name in enumerate(variables):
            value = Fraction(10_007 * (place + 1) + 7_919 * (index + 1), 7_001 + 13 * place)
            value = Fraction(17 + 12 * place + 7 * index) if whole else value * scale
            values[name] = -value if signed and place >> (index % 3) & 1 else value
        return values

    for place in range(8):
        yield point(place, False, Fraction(1))
    for scale in (Fraction(1), Fraction(1, 1009), Fraction(997)):
        for place in range(1, 8):
            yield point(place, True, scale)
    for place in range(4):
        yield point(place, True, Fraction(1), whole=True)


@dataclass(frozen=True)
class _Numbers:
    """A kind of number to evaluate with."""

    lift: Callable[[Fraction], Any]
    power: Callable[[Any, Any], Any]
    call: Callable[[str, Any], Any]
    constant: Callable[[str], Any]
    checked: Callable[[Any], Any]
    tiny: Any = 0


def _evaluated(tree: Tree, numbers: _Numbers, at: Mapping[str, Any]) -> Any:
    kind = tree[0]
    if kind == "number":
        return numbers.lift(tree[1])
    if kind == "name":
        return at[tree[1]]
    if kind == "constant":
        return numbers.constant(tree[1])
    if kind == "call":
        return numbers.checked(numbers.call(tree[1], _evaluated(tree[2], numbers, at)))
    left = _evaluated(tree[1], numbers, at)
    if kind == "negative":
        return -left
    right = _evaluated(tree[2], numbers, at)
    if kind == "^":
        return numbers.checked(numbers.power(left, right))
    return numbers.checked(_OPERATIONS[kind](left, right))


_OPERATIONS = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv
}  # fmt: skip


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise Unreadable("a root is no fraction")
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(exponent.numerator) * size > BITS:
        raise Unreadable("its numbers grow too large")
    return base**exponent.numerator


def _call(function: str, value: Fraction) -> Fraction:
    if function == "abs":
        return abs(value)
    raise Unreadable(f"{function} gives no fraction")


def _no_fraction(which: str) -> Fraction:
    raise Unreadable(f"{which} is no fraction")


_FRACTIONS = _Numbers(lambda value: value, _power, _call, _no_fraction, bounded)


@cache
def _digits(real: bool) -> _Numbers:
    """Numbers of DIGITS digits; where they are `real`, what is none is undefined."""
    with needed_by("comparing answers with roots, pi or functions"):
        import mpmath
    context = mpmath.mp.clone()
    context.dps = DIGITS
    large, tiny = context.mpf(10) ** RANGE, context.mpf(10) ** -CLOSE
    lost = 1 / large**2 / 10**CLOSE  # what rounding may leave where nothing is

    def checked(value: Any) -> Any:
        if real and isinstance(value, context.mpc):
            raise ZeroDivisionError
        size = abs(value)
        if size < lost:
            return context.zero
        if not 1 / large < size < large:
            raise Unreadable("its numbers grow too large or too small")
        return value

    def power(base: Any, exponent: Any) -> Any:
        if not base and exponent.real < 0:
            raise ZeroDivisionError
        if base and abs(exponent) * abs(math.log10(abs(base))) > RANGE:
            raise Unreadable("its numbers grow too large or too small")
        if real and base < 0:
            for root in (3, 5, 7, 9):  # odd roots of negative numbers are real
                times = context.nint(exponent * root)
                if times % root and abs(exponent * root - times) < tiny:
                    return (-1) ** int(times) * context.power(-base, exponent)
        return context.power(base, exponent)

    def call(function: str, value: Any) -> Any:
        if function == "exp" and abs(value) > 3 * RANGE:
            raise Unreadable("its numbers grow too large or too small")
        if function in ("log", "ln") and not value:
            raise ZeroDivisionError
        if function == "log":
            return context.log(value, 10)
        named = {"ln": context.log, "abs": abs}
        return named[function](value) if function in named else getattr(context, function)(value)

    return _Numbers(
        lambda value: checked(context.mpf(value.numerator) / value.denominator),
        power,
        call,
        lambda which: +getattr(context, which),
        checked,
        tiny,
    )
