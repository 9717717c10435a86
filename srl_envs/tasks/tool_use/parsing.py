"""Parsing of an agent's turn into tool calls or an answer, without exceptions.

A call is a JSON object with "name" and "arguments" in `<tool_call>...</tool_call>`, as Hermes and
Qwen models write it. Or the whole text is JSON in the function-calling form: an assistant message
with "tool_calls", a list of calls, or one call, with arguments as an object or as JSON text. Text
before `</think>` is ignored.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from srl_envs.errors import DocumentError
from srl_envs.tasks.grading import final_answer
from srl_envs.text import ParseFailure
from srl_envs.untrusted import read_json, read_json_at

CALLS_A_TURN = 8
OPEN, CLOSE = "<tool_call>", "</tool_call>"
THOUGHT = "</think>"

NOT_CLOSED = ParseFailure(f"a tool call is not closed by {CLOSE}")
NOT_JSON = ParseFailure("a tool call was not valid JSON")
TOO_MANY = ParseFailure(f"there may be {CALLS_A_TURN} tool calls in a turn")
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


def read_turn(text: str) -> tuple[ToolCall, ...] | str | ParseFailure:
    """Return the calls, else the answer, else a ParseFailure with the reason.

    An answer counts only in a turn without calls, and must be marked by `Answer:`, `<answer>` or a
    box.
    """
    before, thought, after = text.partition(THOUGHT)
    start = before.lstrip()
    # Some chat templates write the opening tag themselves, and an argument may contain a tag.
    thinks = start.startswith("<think>") or not (OPEN in start or start.startswith(("{", "[")))
    text = after if thought and thinks else text
    body = text.strip()
    if body.startswith(("{", "[")):
        with contextlib.suppress(DocumentError):  # The text may contain tagged calls or an answer.
            return _calls_of(read_json(body))
    if OPEN in text:
        return _between_tags(text)
    # Two lines in front, because a text of one line would be an answer without a mark.
    answer = final_answer(f"-\n-\n{text}")
    if isinstance(answer, ParseFailure):
        return ParseFailure("there is neither a tool call nor a line 'Answer: ...'")
    return answer


def _between_tags(text: str) -> tuple[ToolCall, ...] | ParseFailure:
    calls: tuple[ToolCall, ...] = ()
    place = text.find(OPEN)
    while place >= 0:
        # Parsed as JSON, not up to the next tag: an argument may contain a tag.
        start = _SPACE.match(text, place + len(OPEN)).end()  # type: ignore[union-attr]
        try:
            message, end = read_json_at(text, start)
        except DocumentError:
            return NOT_JSON if CLOSE in text[start:] else NOT_CLOSED
        if not text.startswith(CLOSE, _SPACE.match(text, end).end()):  # type: ignore[union-attr]
            return NOT_CLOSED
        found = _calls_of(message)
        if isinstance(found, ParseFailure):
            return found
        calls += found
        place = text.find(OPEN, end)
    return calls if len(calls) <= CALLS_A_TURN else TOO_MANY


def _calls_of(message: Any) -> tuple[ToolCall, ...] | ParseFailure:
    """Return the calls in a message with "tool_calls", a list of calls, or one call."""
    if isinstance(message, Mapping) and isinstance(message.get("tool_calls"), list):
        message = message["tool_calls"]
    calls: tuple[ToolCall, ...] = ()
    for said in message if isinstance(message, list) else [message]:
        call = _call(said)
        if isinstance(call, ParseFailure):
            return call
        calls += (call,)
    if not calls:
        return ParseFailure("there was no tool call")
    return calls if len(calls) <= CALLS_A_TURN else TOO_MANY


def _call(said: Any) -> ToolCall | ParseFailure:
    if isinstance(said, Mapping) and isinstance(said.get("function"), Mapping):
        said = said["function"]
    if not isinstance(said, Mapping) or not isinstance(said.get("name"), str):
        return ParseFailure("a tool call is a JSON object with 'name' and 'arguments'")
    arguments = said.get("arguments", said.get("parameters", {}))
    if arguments is None or arguments == "":  # Some models write calls without arguments so.
        arguments = {}
    if isinstance(arguments, str):
        try:
            arguments = read_json(arguments)
        except DocumentError:
            return NOT_JSON
    if not isinstance(arguments, Mapping):
        return ParseFailure("a tool call's arguments are a JSON object")
    return ToolCall(said["name"], dict(arguments))
