"""Exact calculator: a walk over Python's syntax tree that permits arithmetic only.

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

from srl_envs.tasks.tool_use.tools import ToolError

LONGEST = 1000  # characters of an expression
BITS = 4096  # of a numerator or denominator: about 1,200 digits
PLACES = 30  # decimal places that are written exactly
LARGEST_FACTORIAL = 400

Number = Fraction | float

_TOKEN = re.compile(
    r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,3}(?!\d))?(?![A-Za-z_.])"
    r"|[A-Za-z_][A-Za-z_0-9]*|[-+*/%^(),]",
    re.ASCII,
)
_LEADING_ZEROS = re.compile(r"(?<![\w.])0+(?=\d)")  # Python refuses 007.
_TYPESET = str.maketrans("\u00d7\u00b7\u00f7\u2212\u2013", "**/--")


def calculator(expression: str) -> str:
    """Compute an arithmetic expression exactly.

    Args:
        expression: Numbers, + - * / // % **, brackets, and functions such as sqrt(2) or max(1, 2).

    Returns:
        Decimal number; exact if it has at most PLACES places, else with 15 significant digits.

    Raises:
        ToolError: The expression is invalid, undefined or too large.
    """
    value = evaluate(expression)
    if isinstance(value, Fraction):
        shifted = value * 10**PLACES
        if shifted.denominator == 1:
            digits = str(abs(shifted.numerator)).zfill(PLACES + 1)
            sign = "-" if value < 0 else ""
            return f"{sign}{digits[:-PLACES]}.{digits[-PLACES:]}".rstrip("0").rstrip(".")
    return f"{_bounded(float, value):.15g}"


def evaluate(expression: str) -> Number:
    """Return the value of an expression, a Fraction if exact and otherwise a finite float.

    Raises ToolError if the expression is invalid, undefined or too large.
    """
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
        return _value(ast.parse(text, mode="eval").body, text)
    except (RecursionError, MemoryError):
        raise ToolError("the expression is nested too deep") from None
    except SyntaxError:
        raise ToolError(
            "that is no expression: something is missing, out of place or not closed"
        ) from None


def _value(node: ast.expr, text: str) -> Number:
    source = text[node.col_offset : node.end_col_offset]
    match node:
        # Read from the source: Python's own float of 0.1 is not a tenth.
        case ast.Constant() if not source[0].isalpha():
            return _bounded(Fraction, source)
        case ast.Name() | ast.Constant():
            if source not in CONSTANTS:
                raise ToolError(f"there is no constant {source[:20]!r}: {', '.join(CONSTANTS)}")
            return CONSTANTS[source]
        case ast.UnaryOp(op=ast.UAdd() | ast.USub() as sign, operand=operand):
            value = _value(operand, text)
            return value if isinstance(sign, ast.UAdd) else -value
        case ast.BinOp(left=left, op=mark, right=right) if type(mark) in _OPERATIONS:
            return _bounded(_OPERATIONS[type(mark)], _value(left, text), _value(right, text))
        case ast.Call(func=ast.Name(id=name), args=arguments, keywords=[]):
            if name not in FUNCTIONS:
                raise ToolError(f"there is no function {name[:20]!r}: {', '.join(FUNCTIONS)}")
            values = [_value(argument, text) for argument in arguments]
            return _bounded(FUNCTIONS[name], *values)
    raise ToolError(f"{source[:20]!r} is out of place")


def _bounded(function: Callable[..., Any], *values: Any) -> Number:
    """Return `function(*values)`; ToolError if the value is undefined or too large."""
    try:
        value = function(*values)
        value = value if isinstance(value, float) else Fraction(value)
    except ToolError:
        raise
    except ZeroDivisionError:
        raise ToolError("division by zero") from None
    except OverflowError:
        raise ToolError("the number is too large") from None
    except (ValueError, TypeError) as error:
        raise ToolError(f"not defined there ({error})") from None
    if isinstance(value, float) and not math.isfinite(value):
        raise ToolError("the number is too large")
    if isinstance(value, Fraction) and _bits(value) > BITS:
        raise ToolError(f"a number may have {BITS} bits")
    return value


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _power(base: Number, exponent: Number) -> Number:
    if isinstance(base, Fraction) and isinstance(exponent, Fraction) and exponent.denominator == 1:
        # Checked before the power is computed: 9**9**9 would take all memory.
        if base not in (0, 1, -1) and abs(exponent) * (_bits(base) - 1) > BITS:
            raise ToolError(f"a number may have {BITS} bits")
        return base**exponent.numerator
    return math.pow(base, exponent)


def _whole(value: Number, most: int) -> int:
    if value != math.floor(value) or not -most <= value <= most:
        raise ToolError(f"needs a whole number of at most {most}")
    return int(value)


_OPERATIONS: dict[type[ast.operator], Callable[..., Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: _power,
}
CONSTANTS = {"pi": math.pi, "e": math.e}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "abs": abs,
    "min": min,
    "max": max,
    "round": lambda value, places=0: round(value, _whole(places, PLACES)),
    "factorial": lambda value: math.factorial(_whole(value, LARGEST_FACTORIAL)),
    "ln": math.log,
    **{
        name: getattr(math, name)
        for name in ("sqrt", "floor", "ceil", "exp", "log", "log10", "sin", "cos", "tan")
    },
}
