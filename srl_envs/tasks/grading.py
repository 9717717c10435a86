"""Grading of mathematical answers: extraction from a text, parsing, and comparison.

The truth and an answer are parsed alike: as a number, an expression, several values, a tuple,
intervals (also written as inequalities), or words. Numbers must be written out ("3 + 4" is no
answer to "What is 3 + 4?") and are compared as fractions.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import Any

from srl_envs.errors import DocumentError
from srl_envs.tasks import expressions
from srl_envs.tasks.expressions import Unreadable, same
from srl_envs.tasks.free_text_game import readable_text
from srl_envs.text import ParseFailure, tagged
from srl_envs.untrusted import check_brackets

PLACES = 4  # decimals that an answer needs if the truth has more
LONGEST = 1000  # characters of an answer
MOST = 20  # values in one answer
CLOSE_ENOUGH = Fraction(1, 20)  # largest relative error of a rounded decimal

INFINITY, UNION = "inf", "\N{UNION}"
_SIGNS = {
    **{"\\leqslant": "<=", "\\leq": "<=", "\\le": "<=", "\\lt": "<"},
    **{"\\geqslant": ">=", "\\geq": ">=", "\\ge": ">=", "\\gt": ">"},
    **{"\\infty": INFINITY, "∞": INFINITY, "infinity": INFINITY},
    **{"\\cup": UNION, "\\pm": "±", "+/-": "±"},
}
_SIGN = re.compile("|".join(map(re.escape, _SIGNS)))
_FLIPPED = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
_RELATIONS = {sign: sign for sign in _FLIPPED} | {"≤": "<=", "≥": ">=", "=<": "<=", "=>": ">="}
_RELATION = re.compile(r"(<=|>=|=<|=>|[<>≤≥])")
_NAMED = re.compile(
    r"^\s*(?:[A-Za-z](?:_\w)?|[A-Za-z]\([a-z]\)|\(\s*[A-Za-z](?:\s*,\s*[A-Za-z])+\s*\))"
    r"\s*(?:=|\\in|∈)\s*(?![=<>])"
)
"""Name of the answer before it: x =, x_1 =, f(x) =, (x, y) = or x in."""
_JOINED = re.compile(r";|\bor\b|\band\b|,\s")
_THOUSANDS = re.compile(r"(?<![\d.])\d{1,3}(?:,\d{3})+(?!\d)")
_UNITS = re.compile(
    r"^(?P<number>.*?[\d.)}%])\s*"
    # Only whole words, so that matching takes linear time.
    r"(?P<words>(?:[A-Za-z]{2,}(?![A-Za-z])[.]?\s*(?:\^\s*[({]?[23][)}]?\s*)?){1,3})$",
    re.S,
)
_LABELLED = re.compile(r"^[ \t>*_`#-]*(?:final )?answer[ \t*_`]*:(.*)$", re.IGNORECASE | re.M)
_BOX, _BRACE = re.compile(r"\\f?box(?:ed)?\s*\{"), re.compile(r"[{}]")
_AROUND = " \t\r\n*_`\"'"
PERCENT = "percent"
"""Unit that also allows the sign %."""
_ASKED_PERCENT = re.compile(r"(?<![\d.)}$\\\s])(?:\s|\\)*(?:%|percent)")
_MULTIPLES = frozenset(
    re.findall(
        r"\w+",
        "dozen dozens hundred hundreds thousand thousands million millions billion billions "
        "trillion half halves quarter quarters third thirds tenth tenths hundredth hundredths pair "
        "pairs double twice times squared cubed and or minus plus over divided by less than not pi "
        "sqrt to below above zero",
    )
)
"""Words that change the value of a number and are therefore no units."""


Span = tuple[Any, bool, Any, bool]
"""Interval: lower bound, True if included, upper bound, True if included; the bounds are Trees,
INFINITY, or INFINITY with a minus."""


@dataclass(frozen=True)
class Reading:
    """Parsed answer."""

    kind: str
    """One of "number", "expression", "values", "tuple", "set" (of real numbers), "words"."""
    content: Any
    """Value of a number as a Fraction, of an expression as a Tree, of a set as a tuple of Spans, of
    words as a str; for values and a tuple, a tuple of Readings.
    """
    places: int | None = None
    """Number of decimal places, None unless the number is written as a decimal."""


def final_answer(text: str) -> str | ParseFailure:
    r"""Return the final answer in a text, or a ParseFailure if there is none; never raise.

    The forms, by priority: `<answer>...</answer>`, a line that starts with `Answer:` or `Final
    answer:`, `\boxed{...}`, and a text of one line. The last answer of a form counts, or the box in
    it, without surrounding spaces, quotes and Markdown. An empty answer is a ParseFailure.
    """
    whole = readable_text(text)
    if isinstance(whole, ParseFailure):
        return whole
    lines = whole.strip().splitlines()
    for found in (
        tagged(whole),
        _LABELLED.findall(whole),
        boxed(whole),
        lines if len(lines) == 1 else [],
    ):
        if found:
            answer = found[-1].strip(_AROUND)
            inner = boxed(answer)
            plain = inner[-1].strip(_AROUND) if inner else answer
            return plain or ParseFailure("the answer was empty")
    return ParseFailure("no line says 'Answer: ...'")


def boxed(text: str) -> list[str]:
    r"""Return the contents of all `\boxed{...}` and `\fbox{...}`, in the order of their ends.

    Boxes may be nested. A box without an end is ignored.
    """
    starts = {match.end() - 1 for match in _BOX.finditer(text)}
    found = []
    opened: list[int] = []
    for place in (match.start() for match in _BRACE.finditer(text)):
        if text[place] == "{":
            opened.append(place)
        elif opened:
            start = opened.pop()
            if start in starts:
                found.append(text[start + 1 : place])
    return found


def read(text: str, units: Collection[str] = ()) -> Reading:
    """Return the Reading of an answer, of kind "words" if no other fits.

    The first LONGEST characters count. `units` are words in lower case that may follow a number.
    Raises only ImportError, if several values need mpmath and it is missing.
    """
    try:
        check_brackets(text)
    except DocumentError:
        return Reading("words", text[:LONGEST])
    return _read(text[:LONGEST], frozenset(units))


def same_answer(truth: str, answer: str, units: Collection[str] = ()) -> bool:
    """Return True if an answer, such as a number or an interval, has the value of the truth.

    If the truth has more than PLACES decimals, an answer of at least PLACES may be rounded or cut
    off, with a relative error of up to CLOSE_ENOUGH. Texts without a value must have equal words.

    Args:
        truth: Right answer.
        answer: Answer of an agent. One of more than LONGEST characters is wrong.
        units: Words in lower case that may follow a number, in addition to those in the truth.

    Raises:
        ImportError: Roots, pi or functions need mpmath, and mpmath is missing.
    """
    if len(answer) > LONGEST:
        return False
    # The truth in a file may contain its unit, which is then optional in the answer.
    units = frozenset(units) | words_of(truth) | _percent(truth)
    return same_reading(read(truth, units), read(answer, units))


def same_value(truth: str, answer: str, units: Collection[str] = ()) -> bool:
    """Return True if both texts are numbers of the same value, or if both have the same words.

    The answer may be rounded as in `same_answer`. Neither text is computed: 2024-01-05 is no
    difference. Case, spaces and marks around a text do not count. Blank texts never agree. `units`
    are words in lower case that may follow a number.
    """
    units = frozenset(units) | _percent(truth)
    one, other = (_number_alone(text, units) for text in (truth, answer))
    if one is not None and other is not None:
        return same_reading(one, other)
    words, others = (" ".join(text.casefold().split()).strip(" .\"'`*") for text in (truth, answer))
    return bool(words) and words == others


def _number_alone(text: str, units: frozenset[str]) -> Reading | None:
    try:
        return _number(_plain(text.strip("*`\"' \t\n")[: LONGEST + 1]), units)
    except (Unreadable, ZeroDivisionError):
        return None


def _percent(truth: str) -> frozenset[str]:
    return frozenset({PERCENT} if "%" in truth or PERCENT in truth else ())


def same_reading(truth: Reading, answer: Reading) -> bool:
    """Return True if an answer has the value of the truth; the order of the two matters.

    The answer may be rounded as in `same_answer`. A truth that is a number needs an answer that is
    a number; a truth that is an expression may have either. Several values or intervals may be in
    any order, and a pair is equal to an open interval. Raises ImportError as `same` does.
    """
    if {truth.kind, answer.kind} == {"set", "tuple"}:  # (2, 3) is an open interval.
        truth, answer = _interval(truth), _interval(answer)
    right, given = truth.content, answer.content
    if truth.kind == "expression" and answer.kind == "number":
        return same(right, ("number", given))
    if truth.kind != answer.kind:
        return False
    if truth.kind == "number":
        return _same_number(right, answer)
    if truth.kind == "expression":
        return same(right, given)
    if truth.kind == "words":
        return bool(right == given)
    if len(right) != len(given):
        return False
    if truth.kind == "tuple":
        return all(map(same_reading, right, given))
    equal = same_reading if truth.kind == "values" else _same_span
    return all(any(equal(one, other) for other in given) for one in right)


def _interval(reading: Reading) -> Reading:
    if reading.kind != "tuple" or len(reading.content) != 2:
        return reading
    if any(end.kind not in ("number", "expression") for end in reading.content):
        return reading
    low, high = (
        ("number", end.content) if end.kind == "number" else end.content for end in reading.content
    )
    return Reading("set", ((low, False, high, False),))


def words_of(question: str) -> frozenset[str]:
    """Return the set of all words of a question, in lower case, to accept as units of a number.

    PERCENT is included only if "%" or "percent" occurs without a number in front.
    Single letters and words that change a number, such as "half", are omitted.
    """
    words = frozenset(re.findall(r"[A-Za-z]{2,}", question.casefold())) - {PERCENT}
    percentage = _ASKED_PERCENT.search(question.casefold())
    return (words | {PERCENT} if percentage else words) - _MULTIPLES


def _plain(text: str) -> str:
    plain = expressions.plain(text.strip().rstrip("."))
    return plain.replace("\\{", "{").replace("\\}", "}")


# The functions of a form receive the text of an answer and the words that may follow a number. They
# return None or raise Unreadable or ZeroDivisionError if the text does not have the form.


@lru_cache(maxsize=4096)
def _read(text: str, units: frozenset[str]) -> Reading:
    plain = _SIGN.sub(lambda found: _SIGNS[found[0]], _plain(text))
    for attempt in (_spans, _tuple, _number, _values, _expression):
        try:
            found = attempt(plain, units)
        except (Unreadable, ZeroDivisionError):
            continue
        if found is not None:
            return found
    return Reading("words", "".join(plain.casefold().split()))


def _number(text: str, units: frozenset[str]) -> Reading | None:
    text = _NAMED.sub("", text).strip()
    text = re.sub(r"^([-+]?)\s*\\?[$€£]\s*", r"\1", text)
    behind = _UNITS.match(text)
    if behind is not None:
        words = set(re.findall(r"[a-z]+", behind["words"].casefold()))
        if words <= units:
            text = behind["number"].strip()
    # As any unit, a percent sign counts only if the question or the truth names it.
    text = re.sub(r"\s*[%€£]$" if PERCENT in units else r"\s*[€£]$", "", text)
    value = expressions.number(text)
    decimal = re.fullmatch(r"[-+]?[\d,]*\.(\d+)", text)
    return Reading("number", value, len(decimal[1]) if decimal else None)


def _expression(text: str, units: frozenset[str]) -> Reading | None:
    return Reading("expression", expressions.parse(_NAMED.sub("", text)))


def _values(text: str, units: frozenset[str]) -> Reading | None:
    inside = _NAMED.sub("", text).strip()
    braced = inside.startswith("{") and inside.endswith("}") and _is_one_bracket(inside)
    inside = inside[1:-1] if braced else inside
    if _JOINED.search(inside):  # Without a separator, 1,234 is one number.
        inside = _THOUSANDS.sub(lambda found: found[0].replace(",", ""), inside)
    parts = [part for piece in _split(inside, ",;") for part in re.split(r"\bor\b|\band\b", piece)]
    parts = [part.strip() for part in parts if part.strip()]
    signs = []
    for part in parts:
        both = part.count("±") == 1
        signs += [part.replace("±", "+"), part.replace("±", "-")] if both else [part]
    if not (braced or len(signs) > 1) or not signs or len(signs) > MOST:
        return None
    readings = [_read(part, units) for part in signs]
    if any(reading.kind in ("words", "values", "set") for reading in readings):
        return None
    distinct: list[Reading] = []
    for reading in readings:
        if not any(same_reading(reading, other) for other in distinct):
            distinct.append(reading)
    if len(distinct) == 1 and not braced:  # A double root.
        return distinct[0]
    return Reading("values", tuple(distinct))


def _tuple(text: str, units: frozenset[str]) -> Reading | None:
    text = _NAMED.sub("", text).strip()
    if not (text.startswith("(") and text.endswith(")") and _is_one_bracket(text)):
        return None
    parts = _split(text[1:-1], ",")
    if not 2 <= len(parts) <= MOST or not all(part.strip() for part in parts):
        return None
    return Reading("tuple", tuple(_read(part.strip(), units) for part in parts))


def _spans(text: str, units: frozenset[str]) -> Reading | None:
    pieces = re.split(rf"\bor\b|{UNION}", _NAMED.sub("", text))
    spans = [_span(piece.strip(), alone=len(pieces) == 1) for piece in pieces[: MOST + 1]]
    if None in spans or len(spans) > MOST:
        return None
    return Reading("set", tuple(spans))


def _span(text: str, *, alone: bool) -> Span | None:
    """Return an interval or inequality, else None, as for (2, 3) if `alone`."""
    parts = _RELATION.split(text)
    if len(parts) in (3, 5):
        return _related([part.strip() for part in parts])
    if not text or text[0] not in "([" or text[-1] not in ")]" or not _is_one_bracket(text):
        return None
    ends = _split(text[1:-1], ",")
    round_brackets = text[0] == "(" and text[-1] == ")"
    if len(ends) != 2 or (alone and round_brackets and INFINITY not in text):
        return None
    return _bound(ends[0]), text[0] == "[", _bound(ends[1]), text[-1] == "]"


def _related(parts: list[str]) -> Span | None:
    terms, signs = parts[::2], [_RELATIONS[sign] for sign in parts[1::2]]
    if {sign[0] for sign in signs} == {">"}:
        terms, signs = terms[::-1], [_FLIPPED[sign] for sign in signs[::-1]]
    middle = [place for place, term in enumerate(terms) if re.fullmatch(r"[A-Za-z]", term)]
    if len(terms) == 2 and middle == [0]:
        terms, signs, middle = [f"-{INFINITY}", *terms], ["<", *signs], [1]
    elif len(terms) == 2:
        terms, signs = [*terms, INFINITY], [*signs, "<"]
    if middle != [1] or {sign[0] for sign in signs} != {"<"}:
        return None
    return _bound(terms[0]), "=" in signs[0], _bound(terms[2]), "=" in signs[1]


def _bound(text: str) -> Any:
    plain = text.replace(" ", "").removeprefix("+")
    return plain if plain in (INFINITY, f"-{INFINITY}") else expressions.parse(text)


def _same_span(truth: Span, answer: Span) -> bool:
    for one, other in zip(truth, answer, strict=True):
        trees = isinstance(one, tuple) and isinstance(other, tuple)
        if not (same(one, other) if trees else one == other):
            return False
    return True


def _same_number(truth: Fraction, answer: Reading) -> bool:
    if answer.content == truth:
        return True
    if answer.places is None or answer.places < PLACES or (truth * 10**PLACES).denominator == 1:
        return False
    # A rounded or truncated decimal is within one unit of its last place. CLOSE_ENOUGH excludes
    # truths so small that this is no evidence.
    error = abs(answer.content - truth)
    return bool(error < Fraction(1, 10**answer.places) and error <= abs(truth) * CLOSE_ENOUGH)


def _depths(text: str) -> list[int]:
    return list(accumulate((sign in "([{") - (sign in ")]}") for sign in text))


def _split(text: str, marks: str) -> list[str]:
    depths = _depths(text)
    cuts = [place for place, sign in enumerate(text) if sign in marks and depths[place] == 0]
    return [text[start + 1 : end] for start, end in pairwise([-1, *cuts, len(text)])]


def _is_one_bracket(text: str) -> bool:
    depths = _depths(text)
    return 0 in depths and depths.index(0) == len(text) - 1
