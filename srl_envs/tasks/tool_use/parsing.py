"""Parsing of an agent's turn into tool calls or an answer, without exceptions.

A call is a JSON object with "name" and "arguments" (an object, or JSON text). It is written in
`<tool_call>...</tool_call>`, as Hermes and Qwen models do, or the whole text is a call or a list of
calls. Text before `</think>` is ignored.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from srl_envs.errors import DocumentError
from srl_envs.tasks.grading import final_answer
from srl_envs.text import ParseFailure
from srl_envs.untrusted import read_json, read_json_at

CALLS_A_TURN = 8
OPEN, CLOSE = "<tool_call>", "</tool_call>"
THOUGHT = "</think>"

_NOT_CLOSED = f"a tool call is not closed by {CLOSE}"
_NOT_JSON = "a tool call was not valid JSON"
_SPACE = re.compile(r"\s*")


@dataclass(frozen=True)
class ToolCall:
    """One call."""

    name: str
    arguments: Mapping[str, Any]

    @property
    def identity(self) -> str:
        """JSON text that is equal for equal calls."""
        return json.dumps([self.name, self.arguments], sort_keys=True)

    def written(self) -> str:
        """Return the call as an agent writes it."""
        call = json.dumps({"name": self.name, "arguments": self.arguments})
        return f"{OPEN}{call}{CLOSE}"


class _NoCall(ValueError):
    """A text contains an invalid call; the message is the reason."""


def read_turn(text: str) -> tuple[ToolCall, ...] | str | ParseFailure:
    """Return the calls, else the answer, else a ParseFailure with the reason.

    An answer counts only in a turn without calls, and must be marked by `Answer:`, `<answer>` or a
    box.
    """
    before, thought, after = text.partition(THOUGHT)
    start = before.lstrip()
    # Some chat templates write the opening tag themselves, and an argument may contain a tag.
    thinks = start.startswith("<think>") or not (OPEN in start or start.startswith(("{", "[")))
    text = (after if thought and thinks else text).strip()
    try:
        if text.startswith(("{", "[")):
            with contextlib.suppress(DocumentError):  # The text may contain tagged calls.
                return _calls([read_json(text)])
        if OPEN in text:
            return _calls(_tagged(text))
    except _NoCall as error:
        return ParseFailure(str(error))
    # Two lines in front, because a text of one line would be an answer without a mark.
    answer = final_answer(f"-\n-\n{text}")
    if isinstance(answer, ParseFailure):
        return ParseFailure("there is neither a tool call nor a line 'Answer: ...'")
    return answer


def _tagged(text: str) -> Iterator[Any]:
    """Yield the JSON values between tags."""
    place = text.find(OPEN)
    while place >= 0:
        # Parsed as JSON, not up to the next tag: an argument may contain a tag.
        start = _after_spaces(text, place + len(OPEN))
        try:
            message, end = read_json_at(text, start)
        except DocumentError:
            closed = CLOSE in text[start:]
            raise _NoCall(_NOT_JSON if closed else _NOT_CLOSED) from None
        if not text.startswith(CLOSE, _after_spaces(text, end)):
            raise _NoCall(_NOT_CLOSED)
        yield message
        place = text.find(OPEN, end)


def _after_spaces(text: str, place: int) -> int:
    return _SPACE.match(text, place).end()  # type: ignore[union-attr]  # It matches anywhere.


def _calls(messages: Iterable[Any]) -> tuple[ToolCall, ...]:
    """Return the calls in messages, each a call or a list of calls."""
    calls: list[ToolCall] = []
    for message in messages:
        if not message and isinstance(message, list):
            raise _NoCall("there was no tool call")
        calls += map(_call, message if isinstance(message, list) else [message])
    if len(calls) > CALLS_A_TURN:
        raise _NoCall(f"there may be {CALLS_A_TURN} tool calls in a turn")
    return tuple(calls)


def _call(message: Any) -> ToolCall:
    if not isinstance(message, Mapping) or not isinstance(message.get("name"), str):
        raise _NoCall("a tool call is a JSON object with 'name' and 'arguments'")
    arguments = message.get("arguments", message.get("parameters", {}))
    if isinstance(arguments, str) and arguments:
        try:
            arguments = read_json(arguments)
        except DocumentError:
            raise _NoCall(_NOT_JSON) from None
    if arguments in (None, ""):  # Some models write calls without arguments so.
        arguments = {}
    if not isinstance(arguments, Mapping):
        raise _NoCall("a tool call's arguments are a JSON object")
    return ToolCall(message["name"], dict(arguments))
