"""Parser of mathematical expressions in plain notation or LaTeX.

Nothing is ever executed, and everything is bounded: the length of a text, the depth of a tree and
the size of the numbers in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from fractions import Fraction
from typing import Any
from unicodedata import normalize

LONGEST = 400  # characters of an expression
DEEPEST = 40  # nested brackets and operators
BITS = 20_000  # of a numerator or denominator
FUNCTIONS = ("sqrt", "sin", "cos", "tan", "log", "ln", "exp", "abs")
CONSTANTS = ("pi", "e")

Tree = tuple[Any, ...]
"""("number", Fraction), ("name", letter), ("constant", which), ("+" "-" "*" "/" "^", left, right),
("negative", tree) or ("call", function, tree)."""

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
)
_TOKEN = re.compile(
    r"\s*(?:(?P<number>(?:\d{1,3}(?:,\d{3})+(?!\d)(?:\.\d+)?|\d+(?:\.\d*)?|\.\d+)"
    r"(?:[eE][+-]?\d{1,4}(?![\d.A-Za-z]))?)"
    r"|(?P<frac>\\frac)|(?P<word>[A-Za-z]+)|(?P<mark>\*\*|[-+*/^(){}\[\]|]))"
)
_PRODUCTS = re.compile(r"x?y?z?|a?b?c?|[a-z]")
_CLOSING = {"(": ")", "{": "}", "[": "]"}


class Unreadable(ValueError):
    """A text is no expression that we read; the message is one short clause."""


def plain(text: str) -> str:
    """LaTeX marks and typographic signs as plain ones."""
    for pattern, sign in _LATEX:
        text = pattern.sub(sign, text)
    return text.strip()


def parse(text: str) -> Tree:
    """The expression that the whole of a text is; raises Unreadable."""
    if len(text) > LONGEST:
        raise Unreadable(f"an expression may have {LONGEST} characters")
    reader = _Reader(list(_tokens(plain(text))))
    tree = reader.sum(0)
    if reader.here is not None:
        raise Unreadable(f"{reader.here[1][:20]!r} is out of place")
    return tree


def bounded(value: Fraction) -> Fraction:
    """The value itself; raises Unreadable where it has more than BITS bits."""
    if max(value.numerator.bit_length(), value.denominator.bit_length()) > BITS:
        raise Unreadable("its numbers grow too large")
    return value


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    place, end = 0, len(text.rstrip())
    while place < end:
        found = _TOKEN.match(text, place)
        if found is None:
            raise Unreadable(f"{text[place:].strip()[:20]!r} is no part of an expression")
        kind = str(found.lastgroup)
        yield kind, found[kind]
        place = found.end()


class _Reader:
    """Recursive descent over the tokens; every method takes the depth and gives a tree."""

    def __init__(self, tokens: list[tuple[str, str]]) -> None:
        self._tokens = tokens
        self._place = 0

    @property
    def here(self) -> tuple[str, str] | None:
        """The next token, None at the end."""
        return self._tokens[self._place] if self._place < len(self._tokens) else None

    def sum(self, depth: int) -> Tree:
        """Terms joined by + and -."""
        tree = self._product(depth)
        while self._is("+") or self._is("-"):
            operator = self._next()[1]
            tree = (operator, tree, self._product(depth + 1))
        return tree

    def _product(self, depth: int) -> Tree:
        tree = self._signed(depth)
        while self.here is not None:
            if self._is("*") or self._is("/"):
                operator = self._next()[1]
                tree = (operator, tree, self._signed(depth + 1))
            elif self.here[0] in ("word", "frac") or self.here[1] in _CLOSING:
                counted = self._tokens[self._place - 1][0] == "number" and self.here[0] == "frac"
                factor = self._powered(depth + 1)
                tree = _with_fraction(tree, factor) if counted else ("*", tree, factor)
            elif self.here[0] == "number" and self._tokens[self._place - 1][0] == "number":
                tree = _with_fraction(tree, self._plain_fraction())
            else:
                break
        return tree

    def _plain_fraction(self) -> Tree:
        """The 1/2 of 3 1/2."""
        above, bar, below = self._next(), self._next(), self._next()
        if bar != ("mark", "/") or not (above[1].isdigit() and below[1].isdigit()):
            raise Unreadable("two numbers stand beside each other")
        return ("/", ("number", _literal(above[1])), ("number", _literal(below[1])))

    def _signed(self, depth: int) -> Tree:
        if depth > DEEPEST:
            raise Unreadable("it is nested too deep")
        if self._is("-"):
            self._next()
            return ("negative", self._signed(depth + 1))
        if self._is("+"):
            self._next()
            return self._signed(depth + 1)
        return self._powered(depth)

    def _powered(self, depth: int) -> Tree:
        base = self._atom(depth)
        if self._is("^") or self._is("**"):
            self._next()
            return ("^", base, self._signed(depth + 1))
        return base

    def _atom(self, depth: int) -> Tree:
        kind, text = self._next()
        if kind == "number":
            return ("number", _literal(text))
        if kind == "frac":
            return ("/", self._argument(depth), self._argument(depth))
        if kind == "word":
            return self._word(text, depth)
        if text in _CLOSING:
            tree = self.sum(depth + 1)
            self._expect(_CLOSING[text])
            return tree
        if text == "|":
            tree = self.sum(depth + 1)
            self._expect("|")
            return ("call", "abs", tree)
        raise Unreadable(f"{text!r} is out of place")

    def _word(self, text: str, depth: int) -> Tree:
        if text in FUNCTIONS:
            if text == "sqrt" and self._is("["):
                self._next()
                root = self.sum(depth + 1)
                self._expect("]")
                return ("^", self._argument(depth), ("/", ("number", Fraction(1)), root))
            return ("call", text, self._argument(depth))
        if text in CONSTANTS:
            return ("constant", text)
        if not _PRODUCTS.fullmatch(text) and not (len(text) == 1 and text.isascii()):
            raise Unreadable(f"{text[:20]!r} is no part of an expression")
        tree: Tree = ("name", text[0])
        for letter in text[1:]:
            tree = ("*", tree, ("name", letter))
        return tree

    def _argument(self, depth: int) -> Tree:
        """What a function or fraction takes: a bracket, or the one thing that follows."""
        if depth > DEEPEST:
            raise Unreadable("it is nested too deep")
        return self._atom(depth + 1)

    def _is(self, mark: str) -> bool:
        return self.here == ("mark", mark)

    def _next(self) -> tuple[str, str]:
        if self.here is None:
            raise Unreadable("it ends too early")
        token = self.here
        self._place += 1
        return token

    def _expect(self, mark: str) -> None:
        if self._next() != ("mark", mark):
            raise Unreadable(f"{mark!r} is missing")


def _with_fraction(whole: Tree, part: Tree) -> Tree:
    """A whole number and a fraction beside it are their sum, as in -3 1/2."""
    if whole[0] == "negative":
        return ("negative", _with_fraction(whole[1], part))
    parts = part[0] == "/" and part[1][0] == part[2][0] == "number" and part[2][1] != 0
    if not (parts and whole[0] == "number" and whole[1].denominator == 1):
        raise Unreadable("two numbers stand beside each other")
    return ("number", whole[1] + part[1][1] / part[2][1])


def _literal(text: str) -> Fraction:
    return bounded(Fraction(text.replace(",", "")))
