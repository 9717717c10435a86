"""Mathematical expressions in plain notation or LaTeX: parsing, and comparison for all variables.

Values are exact fractions. Expressions with roots, powers, pi or functions are compared in DIGITS
digits by mpmath, at several points if there are variables. DIGITS covers the whole range of
permitted numbers, so a large summand hides no small one, and terms that cancel are 0.

Text is never executed. Its length, the depth of a tree and the size of numbers have limits.
"""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any
from unicodedata import normalize

from srl_envs.loading import needed_by

LONGEST = 400  # characters of an expression
DEEPEST = 40  # nested brackets and operators
BITS = 20_000  # largest size of a numerator or denominator
RANGE = 120  # decimal places before and after the point of an inexact number
DIGITS = 3 * RANGE + 100  # precision of inexact numbers
CLOSE = 50  # digits in which equal inexact values must agree
FUNCTIONS = ("sqrt", "sin", "cos", "tan", "log", "ln", "exp", "abs")
CONSTANTS = ("pi", "e")

Tree = tuple[Any, ...]
"""("number", Fraction), ("name", letter), ("constant", which), ("+" "-" "*" "/" "^", left, right),
("negative", tree) or ("call", function, tree)."""

# A whole number before a fraction, such as 3 1/2 or 3\frac{1}{2}.
_MIXED = re.compile(
    r"(?<![\w.,^])(\d{1,99})"
    r"(?:\s*\\frac\{(\d{1,99})\}\{(\d{1,99})\}|\s+(\d{1,99})\s*/\s*(\d{1,99})(?![\d.]))"
)


def _improper(mixed: re.Match[str]) -> str:
    whole, above, below = filter(None, mixed.groups())
    return f"({int(whole) * int(below) + int(above)}/{below})"


_RAISED = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻", "0123456789-")
_LATEX: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = (
    (re.compile(r"\\!"), ""),
    (re.compile(r"\\(?:left|right|displaystyle|limits|quad|qquad)(?![A-Za-z])|\\[,;: ]|~"), " "),
    (re.compile(r"\\\(|\\\)|\\\[|\\\]|\$"), " "),
    (re.compile(r"\\[dtc]frac(?![A-Za-z])"), r"\\frac"),
    (re.compile(r"\\frac\s*(\d)\s*(\d)"), r"\\frac{\1}{\2}"),
    (re.compile(r"\{,\}"), ","),
    (re.compile(r"\\(?:text|mbox|mathrm|textbf|mathbf)\s*\{([^{}]*)\}"), r" \1 "),
    (re.compile(r"\\(?:cdot|times|ast)(?![A-Za-z])|[×·∗⋅]"), "*"),  # noqa: RUF001
    (re.compile(r"\\div(?![A-Za-z])|÷"), "/"),
    (re.compile(r"\^\s*\{?\\circ\}?|°|\\degree"), " "),
    (re.compile(r"[−–]"), "-"),  # noqa: RUF001
    (re.compile(r"\\(pi|sqrt|sin|cos|tan|log|ln|exp)(?![A-Za-z])"), r" \1 "),
    (re.compile(r"π"), " pi "),
    (re.compile(r"√"), " sqrt "),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"(?<=\d)\s*[xX]\s*(?=10\s*(?:\^|\*\*|[⁰¹²³⁴-⁹⁻]))"), "*"),
    (re.compile(r"⁻?[⁰¹²³⁴-⁹]+"), lambda found: f"^({found[0].translate(_RAISED)})"),
    (re.compile(r"[¼-¾⅐-⅞]"), lambda found: f" {normalize('NFKC', found[0])} "),
    (re.compile("\N{FRACTION SLASH}"), "/"),
    (_MIXED, _improper),
)
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)"
    r"(?:[eE][+-]?\d{1,4}(?![\d.A-Za-z]))?)"
    r"|(?P<frac>\\frac)|(?P<word>[A-Za-z]+)|(?P<mark>\*\*|[-+*/^(){}\[\]|]))"
)
_PRODUCTS = re.compile(r"x?y?z?|a?b?c?|[A-Za-z]")
_CLOSING = {"(": ")", "{": "}", "[": "]"}


class Unreadable(ValueError):
    """Error for an invalid or too large expression; the message is one short clause."""


def plain(text: str) -> str:
    r"""Return a text with LaTeX (but `\frac`), Unicode and mixed numbers in plain notation."""
    for pattern, sign in _LATEX:
        text = pattern.sub(sign, text)
    return text.strip()


def parse(text: str) -> Tree:
    """Return the Tree of a plain or LaTeX expression; Unreadable if invalid or beyond a limit."""
    if len(text) > LONGEST:
        raise Unreadable(f"an expression may have {LONGEST} characters")
    reader = _Reader(plain(text))
    tree = reader.sum(0)
    reader.expect("end", "")
    return tree


def bounded(value: Fraction) -> Fraction:
    """Return `value`; raise Unreadable if its numerator or denominator has more than BITS bits."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > BITS:
        raise Unreadable("its numbers grow too large")
    return value


class _Reader:
    """Recursive descent parser of plain notation; raises Unreadable if invalid or too deep."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        self._place = place = 0
        while place < len(text):
            found = _TOKEN.match(text, place)
            if found is None:
                raise Unreadable(f"{text[place:].strip()[:20]!r} is no part of an expression")
            kind = str(found.lastgroup)
            self._tokens.append((kind, found[kind]))
            place = found.end()
        self._tokens.append(("end", ""))

    def sum(self, depth: int) -> Tree:
        tree = self._product(depth)
        while sign := self._take("+", "-"):
            tree = (sign, tree, self._product(depth + 1))
        return tree

    def expect(self, *token: str) -> None:
        if self._next() != token:
            raise Unreadable(f"{token[1]!r} is missing")

    def _product(self, depth: int) -> Tree:
        tree = self._signed(depth)
        while True:
            kind, text = self._tokens[self._place]
            if sign := self._take("*", "/"):
                tree = (sign, tree, self._signed(depth + 1))
            elif kind in ("word", "frac") or text in _CLOSING:
                tree = ("*", tree, self._powered(depth + 1))
            else:
                return tree

    def _signed(self, depth: int) -> Tree:
        sign = self._take("+", "-")
        if not sign:
            return self._powered(depth)
        tree = self._signed(depth + 1)
        return ("negative", tree) if sign == "-" else tree

    def _powered(self, depth: int) -> Tree:
        base = self._atom(depth)
        return ("^", base, self._signed(depth + 1)) if self._take("^", "**") else base

    def _atom(self, depth: int) -> Tree:
        if depth > DEEPEST:
            raise Unreadable("it is nested too deep")
        kind, text = self._next()
        if kind == "number":
            return ("number", bounded(Fraction(text.replace(",", ""))))
        if kind == "frac":
            return ("/", self._atom(depth + 1), self._atom(depth + 1))
        if kind == "word":
            return self._word(text, depth)
        if text not in _CLOSING and text != "|":
            raise Unreadable(f"{text!r} is out of place")
        tree = self.sum(depth + 1)
        self.expect("mark", _CLOSING.get(text, "|"))
        return ("call", "abs", tree) if text == "|" else tree

    def _word(self, text: str, depth: int) -> Tree:
        if text == "sqrt" and self._take("["):
            root = self.sum(depth + 1)
            self.expect("mark", "]")
            return ("^", self._atom(depth + 1), ("/", ("number", Fraction(1)), root))
        if text in FUNCTIONS:
            return ("call", text, self._atom(depth + 1))
        if text in CONSTANTS:
            return ("constant", text)
        if not _PRODUCTS.fullmatch(text):
            raise Unreadable(f"{text[:20]!r} is no part of an expression")
        tree: Tree = ("name", text[0])
        for letter in text[1:]:
            tree = ("*", tree, ("name", letter))
        return tree

    def _take(self, *marks: str) -> str:
        kind, text = self._tokens[self._place]
        found = text if kind == "mark" and text in marks else ""
        self._place += bool(found)
        return found

    def _next(self) -> tuple[str, str]:
        if self._place == len(self._tokens):
            raise Unreadable("it ends too early")
        self._place += 1
        return self._tokens[self._place - 1]


def number(text: str) -> Fraction:
    """Return the number that is the whole text (plain or LaTeX); raise Unreadable for others.

    The forms are 12, -3.50, 1,234, 3/4, 1 1/2, 2.5e3 and 2.5*10^3. 1/0 is a ZeroDivisionError.
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
    """Return the set of a tree's variables, which are single letters."""
    if tree[0] == "name":
        return frozenset(tree[1])
    return frozenset().union(*(names(part) for part in tree[1:] if isinstance(part, tuple)))


def exact(tree: Tree, at: Mapping[str, Fraction] | None = None) -> Fraction:
    """Return the value of a tree; `at` is variable -> value, None if there are no variables.

    Raises Unreadable if the tree contains a root, pi, e or a function other than abs, or a value is
    too large. Raises ZeroDivisionError if the tree divides by zero, and KeyError for a variable
    without a value.
    """
    value: Fraction = _evaluated(tree, _FRACTIONS, at or {})
    return value


def same(one: Tree, other: Tree) -> bool:
    """Return True if two trees have equal values at many fixed values of their variables.

    Both must be undefined at the same of these values (division by zero, no real number, too large)
    and defined at one at least. Identical trees with too large values are equal.
    With roots, pi, functions or large numbers, CLOSE digits must agree.
    Raises ImportError if mpmath is needed for these and missing.
    """
    variables = sorted(names(one) | names(other))
    try:
        return _agree(one, other, variables, _FRACTIONS)
    except Unreadable:
        return _agree(one, other, variables, _digits())


def _agree(one: Tree, other: Tree, variables: list[str], numbers: _Numbers) -> bool:
    """Return True if two trees agree at all points in the arithmetic `numbers`, see `same`.

    With `_FRACTIONS`, raises Unreadable as `exact` does. With `_digits()`, values that are too
    large or too small are undefined.
    """
    agreed = False
    for at in _points(variables):
        sides = []
        for tree in (one, other):
            try:
                sides.append(_evaluated(tree, numbers, at))
            except numbers.undefined as error:
                sides.append(type(error))
        errors = {side for side in sides if isinstance(side, type)}
        if one == other and ZeroDivisionError not in errors:
            return True  # Identical and defined.
        if not errors:
            left, right = sides
            if not abs(left - right) <= numbers.tiny * max(abs(left), abs(right)):
                return False
            agreed = True
        elif sides[0] is not sides[1]:
            return False
    return agreed


def _points(variables: list[str]) -> Iterator[dict[str, Fraction]]:
    if not variables:
        yield {}
        return
    for scale, signed, places in (
        (Fraction(1), False, range(8)),
        (Fraction(1), True, range(1, 8)),
        (Fraction(1, 1009), True, range(1, 8)),
        (None, True, range(4)),  # whole numbers
    ):
        for place in places:
            values = {}
            for index, name in enumerate(variables):
                if scale is None:
                    value = Fraction(17 + 12 * place + 7 * index)
                else:
                    above = 10_007 * (place + 1) + 7_919 * (index + 1)
                    value = scale * Fraction(above, 7_001 + 13 * place)
                values[name] = -value if signed and place >> (index % 3) & 1 else value
            yield values


@dataclass(frozen=True)
class _Numbers:
    lift: Callable[[Fraction], Any]
    """Conversion of an exact value."""
    power: Callable[[Any, Any], Any]
    """Value of base ** exponent."""
    call: Callable[..., Any]
    """Value of a function in FUNCTIONS; without an argument, of a constant."""
    checked: Callable[[Any], Any]
    """Identity for results in the permitted range; raises an exception of `undefined` otherwise."""
    tiny: Any = 0
    """Largest relative difference of equal values."""
    undefined: tuple[type[Exception], ...] = (ZeroDivisionError,)
    """Exceptions for values that are undefined or outside the permitted range."""


def _evaluated(tree: Tree, numbers: _Numbers, at: Mapping[str, Fraction]) -> Any:
    kind = tree[0]
    if kind in ("number", "name"):
        return numbers.lift(tree[1] if kind == "number" else at[tree[1]])
    if kind in ("constant", "call"):
        values = [_evaluated(part, numbers, at) for part in tree[2:]]
        return numbers.checked(numbers.call(tree[1], *values))
    left = _evaluated(tree[1], numbers, at)
    if kind == "negative":
        return -left
    right = _evaluated(tree[2], numbers, at)
    if kind == "^":
        return numbers.checked(numbers.power(left, right))
    return numbers.checked(_OPERATIONS[kind](left, right))


_OPERATIONS = {"+": operator.add, "-": operator.sub, "*": operator.mul, "/": operator.truediv}


def _power(base: Fraction, exponent: Fraction) -> Fraction:
    if exponent.denominator != 1:
        raise Unreadable("a root is no fraction")
    size = max(base.numerator.bit_length(), base.denominator.bit_length())
    if abs(exponent.numerator) * size > BITS:
        raise Unreadable("its numbers grow too large")
    return base**exponent.numerator


def _call(function: str, *values: Fraction) -> Fraction:
    if function == "abs":
        return abs(*values)
    raise Unreadable(f"{function} gives no fraction")


_FRACTIONS = _Numbers(lambda value: value, _power, _call, bounded)


@cache
def _digits() -> _Numbers:
    with needed_by("comparing answers with roots, pi or functions"):
        import mpmath
    context = mpmath.mp.clone()
    context.dps = DIGITS
    large, tiny = context.mpf(10) ** RANGE, context.mpf(10) ** -CLOSE
    lost = 1 / large**2 / 10**CLOSE  # Rounding error of a value of 0.

    def checked(value: Any) -> Any:
        if isinstance(value, context.mpc):
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
        if base < 0:
            for root in (3, 5, 7, 9):  # Odd roots of negative numbers are real.
                times = context.nint(exponent * root)
                if times % root and abs(exponent * root - times) < tiny:
                    return (-1) ** int(times) * context.power(-base, exponent)
        return context.power(base, exponent)

    def call(function: str, value: Any = None) -> Any:
        if function in CONSTANTS:
            return +getattr(context, function)
        if function == "exp" and abs(value) > 3 * RANGE:
            raise Unreadable("its numbers grow too large or too small")
        if function in ("log", "ln") and not value:
            raise ZeroDivisionError
        named = {"log": context.log10, "ln": context.log, "abs": abs}
        return named[function](value) if function in named else getattr(context, function)(value)

    return _Numbers(
        lambda value: checked(context.mpf(value.numerator) / value.denominator),
        power,
        call,
        checked,
        tiny,
        (ZeroDivisionError, Unreadable),
    )
