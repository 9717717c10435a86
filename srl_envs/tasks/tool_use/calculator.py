"""Exact calculator on Python's syntax tree, with a list of permitted nodes.

Numbers are exact fractions (0.1 + 0.2 is 0.3), and floats after an inexact root or function. The
expression is never executed. Every size has a limit, so `9**9**9` is refused at once.
"""

from __future__ import annotations

import ast
import math
import operator
import re
from collections.abc import Callable
from fractions import Fraction
from typing import Any

from srl_envs.errors import DocumentError
from srl_envs.tasks.tool_use.tools import ToolError
from srl_envs.untrusted import check_brackets

LONGEST = 1000  # characters of an expression
DEEPEST = 50  # nested brackets, signs and powers
BITS = 4096  # of a numerator or denominator: about 1,200 digits
PLACES = 30  # decimal places that are written exactly
LARGEST_FACTORIAL = 400

Number = Fraction | float

CONSTANTS = {"pi": math.pi, "e": math.e, "tau": math.tau}
_TOKEN = re.compile(
    r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3}(?!\d))?(?![A-Za-z_.])"
    r"|[A-Za-z_][A-Za-z_0-9]*|[-+*/%^(),]",
    re.ASCII,
)
_LEADING_ZEROS = re.compile(r"(?<![\w.])0+(?=\d)")  # Python refuses 007.
_TYPESET = str.maketrans(
    {"\u00d7": "*", "\u00b7": "*", "\u00f7": "/", "\u2212": "-", "\u2013": "-", "\u03c0": "pi"}
)


def calculate(expression: str) -> str:
    """Return the value of an expression as text.

    Decimals are exact up to PLACES places, and otherwise have 15 significant digits.

    Raises:
        ToolError: The expression is invalid, undefined or too large.
    """
    return written(evaluate(expression))


def evaluate(expression: str) -> Number:
    """Return the value of an expression: a Fraction if exact, else a finite float."""
    if len(expression) > LONGEST:
        raise ToolError(f"an expression may have {LONGEST} characters")
    text = " ".join(expression.translate(_TYPESET).split())
    if not text:
        raise ToolError("the expression is empty")
    # Strings, attributes, 0x1f and comments never reach Python's parser.
    unknown = _TOKEN.sub("", text).split()
    if unknown:
        raise ToolError(f"{unknown[0][:12]!r} is not understood")
    text = _LEADING_ZEROS.sub("", text).replace("^", "**")
    try:
        check_brackets(text)
        return _value(ast.parse(text, mode="eval").body, text, 0)
    except (DocumentError, RecursionError, MemoryError):
        raise ToolError(f"an expression may be nested {DEEPEST} deep") from None
    except SyntaxError:
        raise ToolError(
            "that is no expression: something is missing, out of place or not closed"
        ) from None


def written(value: Number) -> str:
    """Return a number in decimal notation."""
    if isinstance(value, Fraction):
        shifted = value * 10**PLACES
        if shifted.denominator == 1:
            digits = str(abs(shifted.numerator)).zfill(PLACES + 1)
            sign = "-" if value < 0 else ""
            return f"{sign}{digits[:-PLACES]}.{digits[-PLACES:]}".rstrip("0").rstrip(".")
    return f"{_bounded(float, value):.15g}"


def _value(node: ast.expr, text: str, depth: int) -> Number:
    """Return the value of a syntax node of `text` at nesting depth `depth`."""
    if depth > DEEPEST:
        raise ToolError(f"an expression may be nested {DEEPEST} deep")
    source = text[node.col_offset : node.end_col_offset]
    match node:
        # Read from the source: Python's own float of 0.1 is not a tenth.
        case ast.Constant() if not source[0].isalpha():
            return _bounded(Fraction, source)
        case ast.Name() | ast.Constant():
            if source not in CONSTANTS:
                raise ToolError(f"there is no constant {source[:20]!r}: {', '.join(CONSTANTS)}")
            return CONSTANTS[source]
        case ast.UnaryOp(op=ast.UAdd(), operand=operand):
            return _value(operand, text, depth + 1)
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_value(operand, text, depth + 1)
        case ast.BinOp():
            # A long sum or product nests in its left operands only, and counts as one level.
            steps: list[ast.BinOp] = []
            while isinstance(node, ast.BinOp) and type(node.op) in _OPERATIONS:
                steps.append(node)
                node = node.left
            value = _value(node, text, depth + 1)
            for step in reversed(steps):
                right = _value(step.right, text, depth + 1)
                value = _bounded(_OPERATIONS[type(step.op)], value, right)
            return value
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            if name not in FUNCTIONS:
                raise ToolError(f"there is no function {name[:20]!r}: {', '.join(FUNCTIONS)}")
            function, least, most = FUNCTIONS[name]
            values = [_value(argument, text, depth + 1) for argument in arguments]
            if not least <= len(values) <= most:
                wanted = f"{least}" if least == most else f"{least} or more"
                raise ToolError(f"{name} takes {wanted} numbers, got {len(values)}")
            return _bounded(function, *values)
    raise ToolError(f"{source[:20]!r} is out of place")


def _bounded(function: Callable[..., Any], *values: Any) -> Number:
    """Return the result of a function; raise ToolError if it is undefined or too large."""
    try:
        value = function(*values)
    except ToolError:
        raise
    except ZeroDivisionError:
        raise ToolError("division by zero") from None
    except OverflowError:
        raise ToolError("the number is too large") from None
    except (ValueError, TypeError) as error:
        raise ToolError(f"not defined there ({error})") from None
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ToolError("the number is too large")
        return value
    fraction = Fraction(value)
    if _bits(fraction) > BITS:
        raise ToolError(f"a number may have {BITS} bits")
    return fraction


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _power(base: Number, exponent: Number) -> Number:
    if base == 0 and exponent < 0:
        raise ToolError("division by zero")
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        # Checked before the power is computed: 9**9**9 would take all memory.
        if base not in (0, 1, -1) and abs(exponent) * (_bits(base) - 1) > BITS:
            raise ToolError(f"a number may have {BITS} bits")
        return base**exponent.numerator
    if base < 0 and exponent != math.floor(exponent):
        raise ToolError("that power of a negative number is not real")
    return math.pow(base, exponent)


def _root(value: Number) -> Number:
    if value < 0:
        raise ToolError("that root of a negative number is not real")
    if isinstance(value, Fraction):
        exact = Fraction(math.isqrt(value.numerator), math.isqrt(value.denominator))
        if exact * exact == value:
            return exact
    return math.sqrt(float(value))


def _whole(value: Number) -> int:
    if value != math.floor(value):
        raise ToolError(f"needs whole numbers, got {written(value)}")
    return int(value)


def _factorial(value: Number) -> int:
    if not 0 <= _whole(value) <= LARGEST_FACTORIAL:
        raise ToolError(f"factorial takes 0 to {LARGEST_FACTORIAL}")
    return math.factorial(_whole(value))


def _round(value: Number, places: Number = Fraction(0)) -> Number:
    if abs(_whole(places)) > PLACES:
        raise ToolError(f"round takes at most {PLACES} places")
    digits = _whole(places)
    return round(value, digits) if isinstance(value, float) else Fraction(round(value, digits))


_OPERATIONS: dict[type[ast.operator], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
_MANY = 100
FUNCTIONS: dict[str, tuple[Callable[..., Any], int, int]] = {
    "sqrt": (_root, 1, 1),
    "abs": (abs, 1, 1),
    "min": (lambda *values: min(values), 1, _MANY),
    "max": (lambda *values: max(values), 1, _MANY),
    "sum": (lambda *values: sum(values[1:], values[0]), 1, _MANY),
    "round": (_round, 1, 2),
    "floor": (math.floor, 1, 1),
    "ceil": (math.ceil, 1, 1),
    "pow": (_power, 2, 2),
    "log": (math.log, 1, 2),
    "ln": (math.log, 1, 1),
    "factorial": (_factorial, 1, 1),
    "gcd": (lambda *values: math.gcd(*map(_whole, values)), 1, _MANY),
    "lcm": (lambda *values: math.lcm(*map(_whole, values)), 1, _MANY),
    **{
        name: (getattr(math, name), 1, 1)
        for name in ("exp", "log2", "log10", "sin", "cos", "tan", "asin", "acos", "atan")
    },
}
"""Name -> (function, fewest and most arguments)."""
