"""Arithmetic as text, read by a parser of its own: nothing is ever executed.

Precedence and meaning are Python's: `**` binds to the right and tighter than a sign before it, `//`
and `%` round towards minus infinity. `^` is `**`, and the signs for times, divide and minus of
typeset text are read. Numbers are exact fractions (0.1 + 0.2 is 0.3) until a root or a function
makes that impossible; then they are floats. Everything is bounded, so `9**9**9` is refused at once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from fractions import Fraction
from types import MappingProxyType

from srl_envs.tools.errors import ToolError

LONGEST = 1000  # characters of an expression
DEEPEST = 50  # nested brackets, signs and powers
BITS = 4096  # of a numerator or denominator: about 1,200 digits
PLACES = 30  # decimal places that are written exactly
LARGEST_FACTORIAL = 400

Number = Fraction | float

_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3}(?!\d))?)(?![A-Za-z_.])"
    r"|(?P<name>[A-Za-z_][A-Za-z_0-9]*)|(?P<mark>\*\*|//|[-+*/%^(),]))",
    re.ASCII,
)
_TYPESET = str.maketrans(
    {"\u00d7": "*", "\u00b7": "*", "\u00f7": "/", "\u2212": "-", "\u2013": "-", "\u03c0": "pi"}
)
CONSTANTS: Mapping[str, float] = MappingProxyType({"pi": math.pi, "e": math.e, "tau": math.tau})


def calculate(expression: str) -> str:
    """The value of an expression, written out; raises ToolError with what is wrong with it.

    Whole numbers are written whole; decimals exactly where they end within PLACES places, and
    otherwise to 15 significant digits.
    """
    return written(evaluate(expression))


def evaluate(expression: str) -> Number:
    """The value of an expression: a Fraction where that is exact, else a finite float."""
    if len(expression) > LONGEST:
        raise ToolError(f"an expression may have {LONGEST} characters")
    return _Reader(expression.translate(_TYPESET)).whole()


def written(value: Number) -> str:
    """A number as `calculate` writes it."""
    if isinstance(value, float):
        return f"{value:.15g}"
    if value.denominator == 1:
        return str(value.numerator)
    rest, places = value.denominator, 0
    while rest % 10 == 0:
        rest, places = rest // 10, places + 1
    for prime in (2, 5):
        while rest % prime == 0:
            rest, places = rest // prime, places + 1
    if rest != 1 or places > PLACES:
        return f"{_float(value):.15g}"
    digits = str(abs(value.numerator) * 10**places // value.denominator).zfill(places + 1)
    sign = "-" if value < 0 else ""
    return f"{sign}{digits[:-places]}.{digits[-places:]}".rstrip("0")


class _Reader:
    """Recursive descent: a method for each level of precedence."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        place, end = 0, len(text.rstrip())
        while place < end:
            found = _TOKEN.match(text, place)
            if found is None:
                raise ToolError(f"{text[place:].strip()[:12]!r} is not understood")
            self._tokens.append((str(found.lastgroup), found.group(str(found.lastgroup))))
            place = found.end()
        self._tokens.append(("end", ""))
        self._next = self._depth = 0

    def whole(self) -> Number:
        if self._kind == "end":
            raise ToolError("the expression is empty")
        value = self._sum()
        if self._kind != "end":
            raise ToolError(f"{self._text!r} is out of place")
        return value

    @property
    def _kind(self) -> str:
        return self._tokens[self._next][0]

    @property
    def _text(self) -> str:
        return self._tokens[self._next][1]

    def _take(self, *marks: str) -> str:
        """The next token if it is one of the marks, else nothing."""
        if self._kind == "mark" and self._text in marks:
            self._next += 1
            return self._tokens[self._next - 1][1]
        return ""

    def _sum(self) -> Number:
        value = self._product()
        while mark := self._take("+", "-"):
            value = _combined(mark, value, self._product())
        return value

    def _product(self) -> Number:
        value = self._signed()
        while mark := self._take("*", "/", "//", "%"):
            value = _combined(mark, value, self._signed())
        return value

    def _signed(self) -> Number:
        self._depth += 1
        if self._depth > DEEPEST:
            raise ToolError(f"an expression may be nested {DEEPEST} deep")
        sign = self._take("+", "-")
        if sign:
            value = self._signed()
            value = -value if sign == "-" else value
        else:
            value = self._atom()
            if self._take("**", "^"):
                value = _power(value, self._signed())
        self._depth -= 1
        return value

    def _atom(self) -> Number:
        kind, text = self._tokens[self._next]
        if kind == "number":
            self._next += 1
            return _bounded(Fraction(text))
        if kind == "name":
            self._next += 1
            return self._named(text)
        if self._take("("):
            value = self._sum()
            self._close()
            return value
        raise ToolError(f"{text!r} is out of place" if text else "the expression ends too early")

    def _named(self, name: str) -> Number:
        if not self._take("("):
            if name in CONSTANTS:
                return CONSTANTS[name]
            raise ToolError(f"there is no constant {name[:20]!r}: {', '.join(CONSTANTS)}")
        if name not in FUNCTIONS:
            raise ToolError(f"there is no function {name[:20]!r}: {', '.join(FUNCTIONS)}")
        values = []
        if not self._take(")"):
            values.append(self._sum())
            while self._take(","):
                values.append(self._sum())
            self._close()
        function, least, most = FUNCTIONS[name]
        if not least <= len(values) <= most:
            wanted = f"{least}" if least == most else f"{least} or more"
            raise ToolError(f"{name} takes {wanted} numbers, got {len(values)}")
        return _kept(lambda: function(*values))

    def _close(self) -> None:
        if not self._take(")"):
            raise ToolError("a bracket is not closed")


def _combined(mark: str, left: Number, right: Number) -> Number:
    if mark in ("/", "//", "%") and right == 0:
        raise ToolError("division by zero")
    return _kept(lambda: _OPERATIONS[mark](left, right))


_OPERATIONS: Mapping[str, Callable[[Number, Number], Number]] = MappingProxyType(
    {
        "+": lambda left, right: left + right,
        "-": lambda left, right: left - right,
        "*": lambda left, right: left * right,
        "/": lambda left, right: left / right,
        "//": lambda left, right: left // right,
        "%": lambda left, right: left % right,
    }
)


def _power(base: Number, exponent: Number) -> Number:
    if base == 0 and exponent < 0:
        raise ToolError("division by zero")
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        times = exponent.numerator
        if base in (0, 1, -1):
            return base**times if base else Fraction(int(times == 0))
        if abs(times) * (_bits(base) - 1) > BITS:
            raise ToolError(f"a number may have {BITS} bits")
        return _bounded(base**times)
    if base < 0 and exponent != math.floor(exponent):
        raise ToolError("that power of a negative number is not real")
    return _kept(lambda: _float(base) ** _float(exponent))


def _kept(compute: Callable[[], Number | int]) -> Number:
    """What a computation gives, within bounds; its mathematical failures as a ToolError."""
    try:
        value = compute()
    except ZeroDivisionError:
        raise ToolError("division by zero") from None
    except OverflowError:
        raise ToolError("the number is too large") from None
    except (ValueError, TypeError) as error:
        if isinstance(error, ToolError):
            raise
        raise ToolError(f"not defined there ({error})") from None
    return _bounded(value if isinstance(value, float) else Fraction(value))


def _bounded(value: Number) -> Number:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ToolError("the number is too large")
    elif _bits(value) > BITS:
        raise ToolError(f"a number may have {BITS} bits")
    return value


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _float(value: Number) -> float:
    try:
        return float(value)
    except OverflowError:
        raise ToolError("the number is too large") from None


def _root(value: Number) -> Number:
    """Exact for squares of fractions."""
    if value < 0:
        raise ToolError("that root of a negative number is not real")
    if isinstance(value, Fraction):
        exact = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
        if exact * exact == value:
            return exact
    return math.sqrt(_float(value))


def _whole(value: Number) -> int:
    if value != math.floor(value):
        raise ToolError(f"needs whole numbers, got {written(value)}")
    return int(value)


def _factorial(value: Number) -> int:
    number = _whole(value)
    if not 0 <= number <= LARGEST_FACTORIAL:
        raise ToolError(f"factorial takes 0 to {LARGEST_FACTORIAL}")
    return math.factorial(number)


def _round(value: Number, places: Number = Fraction(0)) -> Number:
    digits = _whole(places)
    if abs(digits) > PLACES:
        raise ToolError(f"round takes at most {PLACES} places")
    return Fraction(round(value, digits)) if isinstance(value, Fraction) else round(value, digits)


def _real(function: Callable[..., float]) -> Callable[..., float]:
    return lambda *values: function(*map(_float, values))


_MANY = 100
FUNCTIONS: Mapping[str, tuple[Callable[..., Number | int], int, int]] = MappingProxyType(
    {
        "sqrt": (_root, 1, 1),
        "abs": (abs, 1, 1),
        "min": (lambda *values: min(values), 1, _MANY),
        "max": (lambda *values: max(values), 1, _MANY),
        "sum": (lambda *values: sum(values[1:], values[0]), 1, _MANY),
        "round": (_round, 1, 2),
        "floor": (math.floor, 1, 1),
        "ceil": (math.ceil, 1, 1),
        "pow": (_power, 2, 2),
        "exp": (_real(math.exp), 1, 1),
        "log": (_real(math.log), 1, 2),
        "ln": (_real(math.log), 1, 1),
        "log2": (_real(math.log2), 1, 1),
        "log10": (_real(math.log10), 1, 1),
        "sin": (_real(math.sin), 1, 1),
        "cos": (_real(math.cos), 1, 1),
        "tan": (_real(math.tan), 1, 1),
        "asin": (_real(math.asin), 1, 1),
        "acos": (_real(math.acos), 1, 1),
        "atan": (_real(math.atan), 1, 1),
        "factorial": (_factorial, 1, 1),
        "gcd": (lambda *values: math.gcd(*map(_whole, values)), 1, _MANY),
        "lcm": (lambda *values: math.lcm(*map(_whole, values)), 1, _MANY),
    }
)
"""Name -> (what it computes, fewest and most arguments)."""
