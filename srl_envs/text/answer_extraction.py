"""Extraction of candidate choices from a model's answer (last line, `<answer>` tags)."""

from __future__ import annotations

import re
import string
from collections.abc import Iterator

# Around a choice we take off white space, quotes, Markdown and punctuation. Left on are marks that
# turn a choice into its opposite or another number: leading '!', '-' and '.', and '~' (struck out).
_QUOTES = "\"'`\u00b4\u2018\u2019\u201c\u201d\u201e\u00ab\u00bb"
_BEFORE = string.whitespace + _QUOTES + "*_#>([{:,;"
_AFTER = string.whitespace + _QUOTES + "*_)]}.,:;!?\u2026\u3002\uff01"
_BULLETS = ("- ", "+ ", "\u2022 ", "\u2013 ", "\u2014 ")
_LABELS = ("answer", "action", "choice")
_TAGGED = re.compile(r"<answer>((?:(?!<answer>).)*)</answer>", re.IGNORECASE | re.DOTALL)


def statements_in(text: str) -> tuple[str, str, str]:
    """The places that count in an answer that is not empty: the whole of it, its last line, and
    what stands in its last `<answer>...</answer>`, if anything."""
    return text, text.splitlines()[-1], (tagged(text) or [""])[-1]


def readings(statement: str) -> Iterator[str]:
    """The statement as it stands, undressed, and without its label: the first legal one counts."""
    yield statement.strip().casefold()
    plain = _undressed(statement)
    yield plain.casefold()
    label, colon, rest = plain.partition(":")
    if colon and label.rstrip(" *_").casefold() in _LABELS:
        yield _undressed(rest).casefold()


def _undressed(statement: str) -> str:
    plain = statement.strip().lstrip(_BEFORE).rstrip(_AFTER)
    if plain.startswith(_BULLETS):
        plain = plain[2:].lstrip(_BEFORE)
    return plain


def tagged(text: str) -> list[str]:
    """The content of each `<answer>...</answer>` of a text."""
    return _TAGGED.findall(text)
