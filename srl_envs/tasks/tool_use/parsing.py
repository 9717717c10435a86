"""Parsing of an agent's turn: tool calls or an answer. It never raises.

Calls stand in `<tool_call>...</tool_call>`, each a JSON object with "name" and "arguments", as
Hermes, Qwen and their chat templates write them; or the whole text is JSON in the function-calling
form: an assistant message with "tool_calls", a list of calls, or one call, arguments being an
object or a JSON text. Of such a message without calls its "content" is read. What stands before
`</think>` is thought and not said.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from srl_envs.errors import DocumentError
from srl_envs.loading.untrusted import read_json, read_json_at
from srl_envs.tasks.grading.extract import final_answer
from srl_envs.text.view import ParseFailure

CALLS_A_TURN = 8
OPEN, CLOSE = "<tool_call>", "</tool_call>"
THOUGHT = "</think>"

NOT_CLOSED = ParseFailure(f"a tool call is not closed by {CLOSE}")
NOT_JSON = ParseFailure("a tool call was not valid JSON")
_SPACE = re.compile(r"\s*")
_FENCES = ("```", "```json")


@dataclass(frozen=True)
class ToolCall:
    """One call."""

    name: str
    arguments: Mapping[str, Any]

    @property
    def identity(self) -> str:
        """The call as JSON, the same for calls that ask the same."""
        return json.dumps([self.name, self.arguments], sort_keys=True)

    def written(self) -> str:
        """As an agent writes it."""
        said = json.dumps({"name": self.name, "arguments": self.arguments})
        return f"{OPEN}{said}{CLOSE}"


def read_turn(text: str) -> tuple[ToolCall, ...] | str | ParseFailure:
    """The calls; else the answer; else why there is neither.

    An answer counts only in a turn without calls, and must be marked as one: by `Answer:`,
    `<answer>` or a box.
    """
    text = _spoken(text)
    body = _unfenced(text.strip())
    if body.startswith(("{", "[")):
        said = _loads(body)
        if not isinstance(said, ParseFailure):
            content = said.get("content") if isinstance(said, Mapping) else None
            if not isinstance(content, str) or "name" in said or said.get("tool_calls"):
                return _calls(said)
            text = _spoken(content)
    if OPEN in text:
        return _between_tags(text)
    # Lines of our own before it: a text of one line is no answer by that alone.
    answer = final_answer(f"-\n-\n{text}")
    if isinstance(answer, ParseFailure):
        return ParseFailure("there is neither a tool call nor a line 'Answer: ...'")
    return answer


def _unfenced(text: str) -> str:
    """What stands between the fences, where they are all around it."""
    first, _, rest = text.partition("\n")
    whole = first.rstrip() in _FENCES and rest.endswith("\n```")
    return rest[: -len("\n```")].strip() if whole else text


def _spoken(text: str) -> str:
    """What comes after the thinking, where there is any."""
    before, thought, after = text.partition(THOUGHT)
    begun = before.lstrip()
    # Some templates write the opening tag themselves; but it may also be in a call's arguments.
    thinks = begun.startswith("<think>") or not (OPEN in begun or begun.startswith(("{", "[", "`")))
    return after if thought and thinks else text


def _between_tags(text: str) -> tuple[ToolCall, ...] | ParseFailure:
    calls: list[ToolCall] = []
    place = text.find(OPEN)
    while place >= 0:
        # Read as JSON, not up to the next tag: a tag in an argument's text is text.
        start = _SPACE.match(text, place + len(OPEN)).end()  # type: ignore[union-attr]
        try:
            said, end = read_json_at(text, start)
        except DocumentError:
            return NOT_JSON if CLOSE in text[start:] else NOT_CLOSED
        if not text.startswith(CLOSE, _SPACE.match(text, end).end()):  # type: ignore[union-attr]
            return NOT_CLOSED
        read = _calls(said)
        if isinstance(read, ParseFailure):
            return read
        calls.extend(read)
        place = text.find(OPEN, end)
    return _counted(calls)


def _calls(said: Any) -> tuple[ToolCall, ...] | ParseFailure:
    if isinstance(said, Mapping) and isinstance(said.get("tool_calls"), list):
        said = said["tool_calls"]
    listed = said if isinstance(said, list) else [said]
    calls = [_call(one) for one in listed]
    failures = [call for call in calls if isinstance(call, ParseFailure)]
    if failures:
        return failures[0]
    return _counted([call for call in calls if isinstance(call, ToolCall)])


def _counted(calls: list[ToolCall]) -> tuple[ToolCall, ...] | ParseFailure:
    if not calls:
        return ParseFailure("there was no tool call")
    if len(calls) > CALLS_A_TURN:
        return ParseFailure(f"there may be {CALLS_A_TURN} tool calls in a turn")
    return tuple(calls)


def _call(said: Any) -> ToolCall | ParseFailure:
    if isinstance(said, Mapping) and isinstance(said.get("function"), Mapping):
        said = said["function"]
    if not isinstance(said, Mapping) or not isinstance(said.get("name"), str):
        return ParseFailure("a tool call is a JSON object with 'name' and 'arguments'")
    arguments = said.get("arguments", said.get("parameters", {}))
    if arguments is None or arguments == "":  # as some write a call without arguments
        arguments = {}
    if isinstance(arguments, str):
        arguments = _loads(arguments)
        if isinstance(arguments, ParseFailure):
            return arguments
    if not isinstance(arguments, Mapping):
        return ParseFailure("a tool call's arguments are a JSON object")
    return ToolCall(said["name"], dict(arguments))


def _loads(text: str) -> Any | ParseFailure:
    try:
        return read_json(text)
    except DocumentError:
        return NOT_JSON
