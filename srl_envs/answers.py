"""Answers to mathematical questions: how they are written, and when two are the same.

A truth and an answer are read alike: a number, an expression, several values, a tuple, an interval
or inequality, or words. Numbers must be written out ("3 + 4" is no answer to "What is 3 + 4?") and
are compared as fractions; a decimal may be rounded to PLACES places where the truth has more.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import Any

from srl_envs import expressions
from srl_envs.expressions import Tree, Unreadable

PLACES = 4  # decimals that an answer must give where the truth has more, or never ends
LONGEST = 1000  # characters of an answer
MOST = 20  # values that one answer may list

INFINITY, UNION = "inf", "\N{UNION}"
_RELATIONS = {
    "<": "<",
    ">": ">",
    "<=": "<=",
    ">=": ">=",
    "≤": "<=",
    "≥": ">=",
    "=<": "<=",
    "=>": ">=",
}
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_RELATION = re.compile(r"(<=|>=|=<|=>|[<>≤≥])")
_NAMED = re.compile(r"^\s*(?:[A-Za-z](?:_\w)?|[A-Za-z]\([a-z]\))\s*(?:=|\\in|∈)\s*(?![=<>])")
_MEMBER = re.compile(r"^\s*[A-Za-z]\s*(?:\\in|∈)\s*")
_UNITS = re.compile(r"^(?P<number>.*?[\d.)}])\s*(?P<words>(?:[A-Za-z]{2,}[.]?\s*){1,3})$", re.S)
_MULTIPLES = frozenset(
    re.findall(
        r"\w+",
        "dozen dozens hundred hundreds thousand thousands million millions billion billions "
        "trillion half halves quarter quarters third thirds tenth tenths hundredth hundredths pair "
        "pairs double twice times squared cubed and or minus plus over divided by less than not pi "
        "sqrt to",
    )
)
"""Words that change what number is meant."""


@dataclass(frozen=True)
class Reading:
    """What an answer says."""

    kind: str
    """"number", "expression", "values", "tuple", "set" (of real numbers) or "words"."""
    content: Any
    """A Fraction, a Tree, a tuple of Readings, spans as (low, closed, high, closed), or a str."""
    places: int | None = None
    """Of a number written as a decimal: how many."""


def read(text: str, units: Collection[str] = ()) -> Reading:
    """What a text says. Never raises: what is nothing else is words.

    `units` are words that may stand behind a number.
    """
    return _read(text[:LONGEST], frozenset(units))


def same_answer(truth: str, said: str, units: Collection[str] = ()) -> bool:
    """Whether an answer is right.

    Raises ImportError where roots, pi or functions need mpmath and it is not installed.
    """
    if len(said) > LONGEST:
        return False
    return same_reading(read(truth), read(said, units))


def same_reading(truth: Reading, said: Reading) -> bool:
    """As `same_answer`, of what has been read."""
    if truth.kind == "number":
        return said.kind == "number" and _same_number(truth.content, said)
    if truth.kind == "expression":
        if said.kind == "number":
            return _same_tree(truth.content, ("number", said.content))
        return said.kind == "expression" and _same_tree(truth.content, said.content)
    if truth.kind == "values":
        return said.kind == "values" and _same_collection(truth.content, said.content)
    if truth.kind == "set":
        return said.kind == "set" and _same_spans(truth.content, said.content)
    if truth.kind == "tuple":
        pairs = zip(truth.content, said.content, strict=False) if said.kind == "tuple" else ()
        return (
            said.kind == "tuple"
            and len(truth.content) == len(said.content)
            and all(same_reading(*pair) for pair in pairs)
        )
    return said.kind == "words" and truth.content == said.content


def words_of(question: str) -> frozenset[str]:
    """The words of a question that may stand behind a number as its unit."""
    words = re.findall(r"[A-Za-z]{2,}", question.casefold())
    return frozenset(words) - _MULTIPLES


@lru_cache(maxsize=4096)
def _read(text: str, units: frozenset[str]) -> Reading:
    plain = expressions.plain(text.strip().rstrip(".")).replace("\\{", "{").replace("\\}", "}")
    plain = plain.replace("\\leq", "<=").replace("\\geq", ">=").replace("\\le", "<=")
    plain = plain.replace("\\ge", ">=").replace("\\lt", "<").replace("\\gt", ">")
    plain = plain.replace("\\infty", INFINITY).replace("∞", INFINITY).replace("infinity", INFINITY)
    plain = plain.replace("\\cup", UNION).replace("\\pm", "±")
    for attempt in (_number, _spans, _tuple, _values, _expression):
        try:
            found = attempt(plain, units)
        except (Unreadable, ZeroDivisionError):
            continue
        if found is not None:
            return found
    return Reading("words", "".join(plain.casefold().split()))


def _number(text: str, units: frozenset[str]) -> Reading | None:
    text = _NAMED.sub("", text).strip()
    text = text.removesuffix("%").strip()
    text = re.sub(r"^([-+]?)\s*\\?[$€£]\s*", r"\1", text)
    behind = _UNITS.match(text)
    if behind is not None:
        words = {word.strip(".").casefold() for word in behind["words"].split()}
        if words <= units:
            text = behind["number"].strip()
    value = expressions.number(text)
    decimal = re.fullmatch(r"[-+]?[\d,]*\.(\d+)", text)
    return Reading("number", value, len(decimal[1]) if decimal else None)


def _expression(text: str, units: frozenset[str]) -> Reading | None:
    return Reading("expression", expressions.parse(_NAMED.sub("", text)))


def _values(text: str, units: frozenset[str]) -> Reading | None:
    inside = _NAMED.sub("", text).strip()
    braced = inside.startswith("{") and inside.endswith("}") and _is_one_bracket(inside)
    inside = inside[1:-1] if braced else inside
    parts = [part for piece in _split(inside, ",;") for part in re.split(r"\bor\b|\band\b", piece)]
    parts = [part.strip() for part in parts if part.strip()]
    signs = [form for part in parts for form in _both_signs(part)]
    if not (braced or len(signs) > 1) or not signs or len(signs) > MOST:
        return None
    readings = [_read(part, units) for part in signs]
    if any(reading.kind in ("words", "values", "set") for reading in readings):
        return None
    distinct: list[Reading] = []
    for reading in readings:
        if not any(same_reading(reading, other) for other in distinct):
            distinct.append(reading)
    return Reading("values", tuple(distinct))


def _both_signs(part: str) -> tuple[str, ...]:
    if part.count("±") != 1:
        return (part,)
    return part.replace("±", "+"), part.replace("±", "-")


def _tuple(text: str, units: frozenset[str]) -> Reading | None:
    text = text.strip()
    if not (text.startswith("(") and text.endswith(")") and _is_one_bracket(text)):
        return None
    parts = _split(text[1:-1], ",")
    if not 2 <= len(parts) <= MOST or not all(part.strip() for part in parts):
        return None
    return Reading("tuple", tuple(_read(part.strip(), units) for part in parts))


def _spans(text: str, units: frozenset[str]) -> Reading | None:
    """Inequalities in one variable and intervals, joined by "or" or a union sign."""
    pieces = re.split(rf"\bor\b|{UNION}", _MEMBER.sub("", text))
    if len(pieces) > MOST:
        return None
    spans = [_span(piece.strip(), alone=len(pieces) == 1) for piece in pieces]
    if any(span is None for span in spans):
        return None
    return Reading("set", tuple(spans))


def _span(text: str, *, alone: bool) -> tuple[Any, bool, Any, bool] | None:
    parts = _RELATION.split(text)
    if len(parts) in (3, 5):
        return _related([part.strip() for part in parts])
    if not text or text[0] not in "([" or text[-1] not in ")]" or not _is_one_bracket(text):
        return None
    ends = _split(text[1:-1], ",")
    round_brackets = text[0] == "(" and text[-1] == ")"
    # (2, 3) is a point, unless it reaches to infinity or is one part of a union.
    if len(ends) != 2 or (alone and round_brackets and INFINITY not in text):
        return None
    return _bound(ends[0]), text[0] == "[", _bound(ends[1]), text[-1] == "]"


def _related(parts: list[str]) -> tuple[Any, bool, Any, bool] | None:
    signs = [_RELATIONS[sign] for sign in parts[1::2]]
    terms = parts[::2]
    middle = [place for place, term in enumerate(terms) if re.fullmatch(r"[A-Za-z]", term)]
    if middle != [1] and not (len(terms) == 2 and len(middle) == 1):
        return None
    if len(terms) == 2:
        left = middle == [0]
        sign = signs[0] if left else _FLIPPED[signs[0]]
        bound = _bound(terms[1] if left else terms[0])
        closed = "=" in sign
        if sign[0] == "<":
            return f"-{INFINITY}", False, bound, closed
        return bound, closed, INFINITY, False
    if {sign[0] for sign in signs} == {"<"}:
        return _bound(terms[0]), "=" in signs[0], _bound(terms[2]), "=" in signs[1]
    if {sign[0] for sign in signs} == {">"}:
        return _bound(terms[2]), "=" in signs[1], _bound(terms[0]), "=" in signs[0]
    return None


def _bound(text: str) -> Any:
    plain = text.replace(" ", "").removeprefix("+")
    return plain if plain in (INFINITY, f"-{INFINITY}") else expressions.parse(text)


def _same_spans(one: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    def equal(a: Any, b: Any) -> bool:
        return all(
            (x == y) if isinstance(x, str | bool) or isinstance(y, str | bool) else _same_tree(x, y)
            for x, y in zip(a, b, strict=True)
        )

    return len(one) == len(other) and all(
        sum(equal(a, b) for b in other) == 1 and sum(equal(a, b) for b in one) == 1 for a in one
    )


def _same_collection(truths: tuple[Reading, ...], said: tuple[Reading, ...]) -> bool:
    return len(truths) == len(said) and all(
        any(same_reading(truth, reading) for reading in said) for truth in truths
    )


def _same_tree(one: Tree, other: Tree) -> bool:
    return expressions.same(one, other)


def _same_number(truth: Fraction, said: Reading) -> bool:
    if said.content == truth:
        return True
    if said.places is None or said.places < PLACES or (truth * 10**PLACES).denominator == 1:
        return False
    # Rounded where it was cut off: within one unit of the last place that was given.
    return bool(abs(said.content - truth) < Fraction(1, 10**said.places))


def _split(text: str, marks: str) -> list[str]:
    """At marks that stand in no bracket; commas within numbers such as 1,234 stay."""
    parts, depth, start = [], 0, 0
    for place, character in enumerate(text):
        if character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character in marks and depth == 0:
            parts.append(text[start:place])
            start = place + 1
    return [*parts, text[start:]]


def _is_one_bracket(text: str) -> bool:
    """Whether the first bracket is closed by the last character."""
    depth = 0
    for place, character in enumerate(text):
        depth += (character in "([{") - (character in ")]}")
        if depth == 0:
            return place == len(text) - 1
    return False
