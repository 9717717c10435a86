"""Calculator: arithmetic on Python's syntax tree with a list of allowed nodes.

Precedence and meaning are Python's: `**` binds to the right and tighter than a sign before it, `//`
and `%` round towards minus infinity. `^` is `**`, and the signs for times, divide and minus of
typeset text are read. Numbers are exact fractions (0.1 + 0.2 is 0.3) until a root or a function
makes that impossible; then they are floats. Nothing is ever executed, and everything is bounded, so
`9**9**9` is refused at once.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import MappingProxyType

from srl_envs.errors import DocumentError
from srl_envs.loading.untrusted import check_brackets
from srl_envs.tasks.tool_use.errors import ToolError

LONGEST = 1000  # characters of an expression
DEEPEST = 50  # nested brackets, signs and powers
BITS = 4096  # of a numerator or denominator: about 1,200 digits
PLACES = 30  # decimal places that are written exactly
LARGEST_FACTORIAL = 400

Number = Fraction | float

_TOKEN = re.compile(
    r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3}(?!\d))?(?![A-Za-z_.])"
    r"|[A-Za-z_][A-Za-z_0-9]*|[-+*/%^(),]",
    re.ASCII,
)
_LEADING_ZEROS = re.compile(r"(?<![\w.])0+(?=\d)")  # 007 is a number here, and none to Python
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
    text = " ".join(expression.translate(_TYPESET).split())
    if not text:
        raise ToolError("the expression is empty")
    # What Python knows beyond this (strings, attributes, 0x1f, comments) is kept from its parser.
    unknown = _TOKEN.sub("", text).split()
    if unknown:
        raise ToolError(f"{unknown[0][:12]!r} is not understood")
    text = _LEADING_ZEROS.sub("", text).replace("^", "**")
    try:
        check_brackets(text)
        tree = ast.parse(text, mode="eval")
    except (DocumentError, RecursionError, MemoryError):
        raise ToolError(f"an expression may be nested {DEEPEST} deep") from None
    except SyntaxError:
        raise ToolError(
            "that is no expression: something is missing, out of place or not closed"
        ) from None
    return _Evaluation(text).of(tree.body, 0)


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


@dataclass(frozen=True)
class _Evaluation:
    """The values of the nodes of a parsed text; other kinds of nodes are refused."""

    text: str

    def of(self, node: ast.expr, depth: int) -> Number:
        """The value of a node that stands `depth` deep."""
        if depth > DEEPEST:
            raise ToolError(f"an expression may be nested {DEEPEST} deep")
        match node:
            case ast.Constant():
                return self._literal(node)
            case ast.Name(id=name):
                return self._constant(name)
            case ast.UnaryOp(op=ast.UAdd(), operand=operand):
                return self.of(operand, depth + 1)
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.of(operand, depth + 1)
            case ast.BinOp(left=base, op=ast.Pow(), right=exponent):
                return _power(self.of(base, depth + 1), self.of(exponent, depth + 1))
            case ast.BinOp():
                return self._chain(node, depth + 1)
            case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
                return self._call(name, arguments, depth + 1)
        raise ToolError(f"{self._source(node)[:20]!r} is out of place")

    def _literal(self, node: ast.Constant) -> Number:
        """The number as it was written: Python's own float of 0.1 is not a tenth."""
        source = self._source(node)
        if source[0].isalpha():  # True, False, None
            return self._constant(source)
        return _bounded(Fraction(source))

    def _constant(self, name: str) -> Number:
        if name not in CONSTANTS:
            raise ToolError(f"there is no constant {name[:20]!r}: {', '.join(CONSTANTS)}")
        return CONSTANTS[name]

    def _chain(self, node: ast.expr, depth: int) -> Number:
        """1 + 2 - 3 + ...: long sums and products lean to the left, and are not nested."""
        steps = []
        while isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
            steps.append(node)
            node = node.left
        value = self.of(node, depth)
        for step in reversed(steps):
            right = self.of(step.right, depth)
            value = _kept(_OPERATIONS[type(step.op)], value, right)
        return value

    def _call(self, name: str, arguments: Sequence[ast.expr], depth: int) -> Number:
        if name not in FUNCTIONS:
            raise ToolError(f"there is no function {name[:20]!r}: {', '.join(FUNCTIONS)}")
        values = [self.of(argument, depth) for argument in arguments]
        function, least, most = FUNCTIONS[name]
        if not least <= len(values) <= most:
            wanted = f"{least}" if least == most else f"{least} or more"
            raise ToolError(f"{name} takes {wanted} numbers, got {len(values)}")
        return _kept(function, *values)

    def _source(self, node: ast.expr) -> str:
        return self.text[node.col_offset : node.end_col_offset]


_OPERATIONS: Mapping[type[ast.operator], Callable[[Number, Number], Number]] = MappingProxyType(
    {
        ast.Add: operator.add,
        ast.Sub: operator.sub,
        ast.Mult: operator.mul,
        ast.Div: operator.truediv,
        ast.FloorDiv: operator.floordiv,
        ast.Mod: operator.mod,
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
    return _kept(operator.pow, _float(base), _float(exponent))


def _kept(compute: Callable[..., Number | int], *values: Number) -> Number:
    """What a computation gives, within bounds; its mathematical failures as a ToolError."""
    try:
        value = compute(*values)
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
