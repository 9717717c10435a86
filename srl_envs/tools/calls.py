"""What a seat wrote in its turn: calls to tools, or its answer. Reading never raises.

Calls stand in `<tool_call>...</tool_call>`, each a JSON object with "name" and "arguments", as
Hermes, Qwen and their chat templates write them; or the whole text is JSON in the function-calling
form: an assistant message with "tool_calls", a list of calls, or one call, arguments being an
object or a JSON text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from srl_envs.final_answers import final_answer
from srl_envs.text import ParseFailure

CALLS_A_TURN = 8
OPEN, CLOSE = "<tool_call>", "</tool_call>"

_FENCED = re.compile(r"\A```(?:json)?\s*\n(.*)\n```\Z", re.DOTALL)


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
        """As a seat writes it."""
        said = json.dumps({"name": self.name, "arguments": self.arguments})
        return f"{OPEN}{said}{CLOSE}"


def read_turn(text: str) -> tuple[ToolCall, ...] | str | ParseFailure:
    """The calls; else the answer; else why there is neither.

    An answer counts only in a turn without calls, and must be marked as one: by `Answer:`,
    `<answer>` or a box.
    """
    if OPEN in text:
        return _between_tags(text)
    stripped = text.strip()
    fenced = _FENCED.match(stripped)
    body = fenced.group(1).strip() if fenced else stripped
    if body.startswith(("{", "[")):
        said = _loads(body)
        if not isinstance(said, ParseFailure):
            return _calls(said)
    # Lines of our own before it: a text of one line is no answer by that alone.
    answer = final_answer(f"-\n-\n{text}")
    if isinstance(answer, ParseFailure):
        return ParseFailure("there is neither a tool call nor a line 'Answer: ...'")
    return answer


def _between_tags(text: str) -> tuple[ToolCall, ...] | ParseFailure:
    calls: list[ToolCall] = []
    for part in text.split(OPEN)[1:]:
        body, closed, _ = part.partition(CLOSE)
        if not closed:
            return ParseFailure(f"a tool call is not closed by {CLOSE}")
        said = _loads(body)
        read = said if isinstance(said, ParseFailure) else _calls(said)
        if isinstance(read, ParseFailure):
            return read
        calls.extend(read)
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
    if isinstance(arguments, str):
        arguments = _loads(arguments)
        if isinstance(arguments, ParseFailure):
            return arguments
    if not isinstance(arguments, Mapping):
        return ParseFailure("a tool call's arguments are a JSON object")
    return ToolCall(said["name"], dict(arguments))


def _loads(text: str) -> Any | ParseFailure:
    try:
        return json.loads(text, parse_constant=_refuse)
    except (ValueError, RecursionError):  # also numbers of thousands of digits
        return ParseFailure("a tool call was not valid JSON")


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
