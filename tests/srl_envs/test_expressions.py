"""Expressions: read as written, compared exactly, bounded in everything."""

import re
from fractions import Fraction

import numpy as np
import pytest

from srl_envs.expressions import Unreadable, exact, names, number, parse, same


def random_expression(rng: np.random.Generator, depth: int) -> str:
    if depth == 0 or rng.random() < 0.2:
        return str(rng.integers(0, 20))
    left, right = (random_expression(rng, depth - 1) for _ in range(2))
    operator = rng.choice(["+", "-", "*", "/", "**"], p=[0.3, 0.3, 0.25, 0.1, 0.05])
    if operator == "**":
        return f"({left})**{rng.integers(0, 4)}"
    return f"({left} {operator} {right})"


def test_values_are_those_of_python():
    rng, checked = np.random.default_rng(0), 0
    for _ in range(600):
        text = random_expression(rng, int(rng.integers(1, 5)))
        if len(text) > 390:
            continue
        fractions = "".join(f"F({part})" if part.isdigit() else part for part in _pieces(text))
        try:
            expected = eval(fractions, {"F": Fraction})  # our own text
        except ZeroDivisionError:
            with pytest.raises(ZeroDivisionError):
                exact(parse(text))
            continue
        assert exact(parse(text)) == expected, text
        checked += 1
    assert checked > 400


def _pieces(text: str) -> list[str]:
    return re.findall(r"\d+|\D", text)


def test_against_sympy():
    sympy = pytest.importorskip("sympy")
    x = sympy.Symbol("x")
    for text in ("(x+1)(x-2)(x+3)", "2x^3 - x(x^2 - 4)", "(x^2-1)/(x+1)", "sqrt(x^2+1)^2"):
        readable = text.replace("^", "**").replace(")(", ")*(").replace("2x", "2*x")
        theirs = sympy.sympify(readable.replace("x(", "x*("), locals={"x": x})
        other = str(sympy.factor(sympy.simplify(theirs))).replace("**", "^")
        assert same(parse(text), parse(other)), (text, other)
        assert not same(parse(text), parse(f"{other} + 1"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("-2^2", -4), ("2^3^2", 512), ("1/2/2", Fraction(1, 4)), ("2 - 3 - 4", -5),
        ("3(4)(5)", 60), ("-3 1/2", Fraction(-7, 2)), (r"2\frac{1}{2}", Fraction(5, 2)),
        ("|3 - 7|", 4), ("2*-3", -6), ("2^-1", Fraction(1, 2)), (r"\frac12", Fraction(1, 2)),
        ("1,000 + 1", 1001), ("{2}[3]", 6), ("1.5e2", 150), ("4!"[:1], 4), ("+5", 5),
    ],
)  # fmt: skip
def test_what_is_written(text, value):
    assert exact(parse(text)) == value


@pytest.mark.parametrize(
    "text", ["", "1 +", "(1", "1)", "* 2", "1 2", "x y z 3 4", "foo", "1..2", "#"]
)
def test_what_is_no_expression(text):
    with pytest.raises(Unreadable):
        parse(text)


@pytest.mark.parametrize("text", ["9^9^9^9", "2^99999999", "1e9999", "(10^1000)^1000", "2^(1/2)"])
def test_what_is_no_fraction_or_too_large(text):
    with pytest.raises(Unreadable):
        exact(parse(text))


@pytest.mark.parametrize("text", ["3 + 4", "2^5", "2*3", "x", "sqrt(4)", "1/2/3", "3 - -4", "10^3"])
def test_a_number_is_written_out(text):
    with pytest.raises(Unreadable):
        number(text)


def test_variables():
    assert names(parse("2xy + z^2 - pi")) == {"x", "y", "z"}
    assert not same(parse("x"), parse("y")) and same(parse("xy"), parse("y*x"))
    assert same(parse("sin(x)^2 + cos(x)^2"), parse("1"))
    assert not same(parse("1/(x - x)"), parse("1/(x - x)"))  # nowhere defined
