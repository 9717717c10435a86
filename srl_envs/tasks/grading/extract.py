"""Extraction of the final answer from a longer text."""

from __future__ import annotations

import re

from srl_envs.tasks.free_text_game import readable_text
from srl_envs.text.answer_extraction import tagged
from srl_envs.text.view import ParseFailure

_LABELLED = re.compile(r"^[ \t>*_`#-]*(?:final )?answer[ \t*_`]*:(.*)$", re.IGNORECASE | re.M)
_BOX, _BRACE = re.compile(r"\\f?box(?:ed)?\s*\{"), re.compile(r"[{}]")
_AROUND = " \t\r\n*_`\"'"


def final_answer(text: str) -> str | ParseFailure:
    r"""The final answer that a text states, or a ParseFailure. Never raises.

    The first of these that is there counts, and of several the last: what stands within
    `<answer>...</answer>`; what follows `Answer:` at the beginning of a line; what `\boxed{...}`
    holds; the text itself where it is a single line.
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
            said = found[-1].strip(_AROUND)
            inner = boxed(said)
            plain = inner[-1].strip(_AROUND) if inner else said
            return plain or ParseFailure("the answer was empty")
    return ParseFailure("no line says 'Answer: ...'")


def boxed(text: str) -> list[str]:
    r"""What each `\boxed{...}` (or `\fbox{...}`) of a text holds, braces matched."""
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
