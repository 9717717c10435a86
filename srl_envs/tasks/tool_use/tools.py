"""Tools: functions with JSON schemas, and calls: their parsing, validation and results.

A call is a JSON object with "name" and "arguments" (an object, or JSON text). It is written in
`<tool_call>...</tool_call>`, as Hermes and Qwen models do, or the whole text is a call or a list of
calls. Text before `</think>` is ignored.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, get_type_hints

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError

from srl_envs.errors import DocumentError, EnvConfigError, EnvError
from srl_envs.loading import needed_by
from srl_envs.tasks.grading import final_answer
from srl_envs.text import TEXT_LENGTH, ParseFailure
from srl_envs.untrusted import framed, read_json, read_json_at

CALLS_A_TURN = 8
OPEN, CLOSE = "<tool_call>", "</tool_call>"
THOUGHT = "</think>"
RESULT_LENGTH = 2000  # characters of a result
COMPLAINT_LENGTH = 200  # characters of the description of a failed call
CUT = " ... (cut)"

log = logging.getLogger(__name__)

_ARGUMENTS = re.compile(
    r"^Args?(?:uments)?:[ \t]*\n(.*?)(?=^\w[\w ]*:[ \t]*$|\Z)", re.M | re.DOTALL
)
_ARGUMENT = re.compile(
    r"^ +(\w+)(?: \([^)]*\))?:\s*(.*?)(?=^ +\w+(?: \([^)]*\))?:|\Z)", re.M | re.S
)
_NOT_CLOSED = f"a tool call is not closed by {CLOSE}"
_NOT_JSON = "a tool call was not valid JSON"
_SPACE = re.compile(r"\s*")


class ToolError(EnvError, ValueError):
    """Failure of a tool call. The message, one clause, is the result of the call."""


@dataclass(frozen=True)
class Tool:
    """Function that an agent can call, with its schema."""

    name: str
    """Name in calls, unique in an environment."""
    description: str
    """Description in the prompt."""
    parameters: Mapping[str, Any]
    """JSON schema of the arguments: an object with a property for each argument."""
    function: Callable[..., Any]
    """Function that receives the arguments by name.

    The model reads its result: a string unchanged, any other value as JSON.
    """

    @classmethod
    def of(cls, function: Callable[..., Any], name: str | None = None) -> Tool:
        """Return the Tool of a function, with a schema from its signature and docstring.

        Args:
            function: Function with type hints and a Google-style docstring, in which each argument
                has a line under "Args:". The text before its first section is the description.
            name: Name of the tool, by default that of the function.

        Raises:
            EnvConfigError: The description, or an argument's line or type hint, is missing, or
                JSON has no such type.
        """
        name = name or str(getattr(function, "__name__", type(function).__name__))
        docstring = inspect.getdoc(function) or ""
        description = re.split(r"^\w[\w ]*:[ \t]*$", docstring, maxsplit=1, flags=re.M)[0].strip()
        if not description:
            raise EnvConfigError(f"tool {name} must have a docstring, its description")
        section = _ARGUMENTS.search(docstring)
        described = dict(_ARGUMENT.findall(section.group(1))) if section else {}
        hints = get_type_hints(function)
        properties, required = {}, []
        for parameter in inspect.signature(function).parameters.values():
            argument = parameter.name
            if argument not in hints or argument not in described:
                raise EnvConfigError(
                    f"tool {name}: argument {argument!r} must have a type hint and a line under "
                    "'Args:' in the docstring"
                )
            try:
                schema = TypeAdapter(hints[argument]).json_schema()
            except PydanticUserError as error:
                raise EnvConfigError(
                    f"tool {name}: argument {argument!r} cannot be a {hints[argument]}: JSON has "
                    "no such type"
                ) from error
            described_in = " ".join(described[argument].split())
            properties[argument] = {**schema, "description": described_in}
            if parameter.default is parameter.empty:
                required.append(argument)
        parameters: dict[str, Any] = {"type": "object", "properties": properties}
        if required:
            parameters["required"] = required
        return cls(name, description, parameters, function)

    def schema(self) -> dict[str, Any]:
        """Return {"type": "function", "function": {name, description, parameters}}."""
        described = {"description": self.description, "parameters": dict(self.parameters)}
        return {"type": "function", "function": {"name": self.name, **described}}


@dataclass(frozen=True)
class ToolCall:
    """Call of a tool by an agent."""

    name: str
    """Name of a tool, which may not exist."""
    arguments: Mapping[str, Any]
    """Arguments by name, not yet validated."""

    @property
    def identity(self) -> str:
        """JSON text of the name and arguments, equal for equal calls."""
        return json.dumps([self.name, self.arguments], sort_keys=True)

    def written(self) -> str:
        """Return the call as an agent writes it: JSON between <tool_call> tags."""
        call = json.dumps({"name": self.name, "arguments": self.arguments})
        return f"{OPEN}{call}{CLOSE}"


@dataclass(frozen=True)
class ToolResult:
    """Result of a call."""

    ok: bool
    """False if the call failed."""
    content: str
    """Text of the result or of the error, cut if long."""


class ToolRegistry:
    """Tools in the dict `tools`: name -> Tool.

    Args:
        tools: Tools with different names.

    Raises:
        EnvConfigError: Two tools have the same name, or a schema is invalid.
        ImportError: jsonschema is missing.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self.tools:
                raise EnvConfigError(f"tools must have different names, got {tool.name!r} twice")
            self.tools[tool.name] = tool
            _validator(json.dumps(tool.parameters))

    def schemas(self) -> list[dict[str, Any]]:
        """Return the schemas of all tools, for `tools=` of a chat template."""
        return [tool.schema() for tool in self.tools.values()]

    def call(self, call: ToolCall) -> ToolResult:
        """Validate and make a call, and return its result, cut if long.

        The result is not `ok` for an unknown tool, invalid arguments, or an exception of the
        function. Exceptions other than ToolError are logged, once per tool and class.

        Raises:
            EnvError: The function raised an EnvError that is no ToolError.
        """
        tool = self.tools.get(call.name)
        if tool is None:
            close = get_close_matches(call.name[:50], self.tools, n=1)
            guess = f" (did you mean {close[0]!r}?)" if close else ""
            known = ", ".join(self.tools)
            return _failed(f"there is no tool {call.name[:50]!r}{guess}; {known}")
        complaint = _complaint(tool, call.arguments)
        if complaint:
            return _failed(complaint)
        try:
            return ToolResult(True, _cut(_result(tool, call.arguments), RESULT_LENGTH))
        except ToolError as error:
            return _failed(str(error))


def _result(tool: Tool, arguments: Mapping[str, Any]) -> str:
    try:
        value = tool.function(**arguments)
        return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    except EnvError:
        raise
    except (Exception, SystemExit) as error:  # argparse exits on wrong arguments
        _log_exception(tool.name, type(error).__name__)
        raise ToolError(f"{type(error).__name__}: {error}") from error


def _complaint(tool: Tool, arguments: Mapping[str, Any]) -> str:
    import jsonschema

    known = tool.parameters.get("properties", {})
    for name in arguments:
        if name not in known and tool.parameters.get("additionalProperties", False) is False:
            return f"{tool.name} has no argument {name[:50]!r}; {', '.join(known)}"
    found = jsonschema.exceptions.best_match(
        _validator(json.dumps(tool.parameters)).iter_errors(arguments)
    )
    if found is None:
        return ""
    where = ".".join(map(str, found.absolute_path))
    return f"{where}: {found.message}" if where else str(found.message)


@functools.lru_cache(maxsize=256)
def _validator(parameters: str) -> Any:
    with needed_by("checking a call's arguments"):
        import jsonschema
    schema = json.loads(parameters)
    try:
        jsonschema.Draft202012Validator.check_schema(schema)
    except jsonschema.SchemaError as error:
        raise EnvConfigError(f"parameters must be a JSON schema: {error.message}") from error
    return jsonschema.Draft202012Validator(schema)


@functools.lru_cache(maxsize=256)
def _log_exception(name: str, kind: str) -> None:
    message = "the tool %s raised %s, which the model reads as the result of its call"
    log.warning(message, name, kind, exc_info=True)


def _failed(complaint: str) -> ToolResult:
    return ToolResult(False, _cut(complaint, COMPLAINT_LENGTH))


def _cut(text: str, length: int) -> str:
    whole = text.encode("utf-8", "backslashreplace").decode()  # Lone surrogates are not text.
    return whole if len(whole) <= length else whole[: length - len(CUT)] + CUT


class _NoCall(ValueError):
    """Invalid tool call; the message is the reason."""


def read_turn(text: str) -> tuple[ToolCall, ...] | str | ParseFailure:
    """Return the calls in an agent's text, or its answer as str; never raise.

    Text up to </think> is skipped if it begins with <think> or has no call. Calls are in tags, or
    all text is JSON. Without calls, `Answer:`, `<answer>` or a TeX box marks the answer. Return a
    ParseFailure for malformed or more than CALLS_A_TURN calls, and for all other texts.
    """
    text = _after_thought(text)
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


def _after_thought(text: str) -> str:
    before, thought, after = text.partition(THOUGHT)
    start = before.lstrip()
    # Some chat templates write the opening tag themselves, and an argument may contain a tag.
    thinks = start.startswith("<think>") or not (OPEN in start or start.startswith(("{", "[")))
    return (after if thought and thinks else text).strip()


def _tagged(text: str) -> Iterator[Any]:
    place = text.find(OPEN)
    while place >= 0:
        # The JSON value determines the end, because an argument may contain a tag.
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
    if arguments in (None, ""):  # Some models write calls without arguments in this form.
        arguments = {}
    if not isinstance(arguments, Mapping):
        raise _NoCall("a tool call's arguments are a JSON object")
    return ToolCall(message["name"], dict(arguments))


def tool_rules(
    registry: ToolRegistry,
    opening: str = "You may use tools:",
    closing: str = ". Your next turn shows the result.",
) -> str:
    """Return a system message with the schemas of the tools and the form of a call.

    `opening` is the line before the schemas. `closing` ends the last sentence, on the form.
    """
    listed = "\n".join(map(json.dumps, registry.schemas()))
    example = '{"name": <tool>, "arguments": {<name>: <value>}}'
    form = f"To call one, write {OPEN}{example}{CLOSE} and nothing else{closing}"
    return f"{opening}\n<tools>\n{listed}\n</tools>\n{form}"


def tool_turn(registry: ToolRegistry, text: str) -> str | None:
    """Make the tool calls in a text, and return their results as one text.

    Return "Not read: <reason>." for malformed or too many calls in tags, None for other texts.
    Raise an EnvError of a tool that is no ToolError.
    """
    turn = read_turn(text)
    if isinstance(turn, tuple):
        results = [registry.call(call) for call in turn]
        return "\n".join(response(result, len(results)) for result in results)
    if isinstance(turn, ParseFailure) and OPEN in _after_thought(text):
        return f"Not read: {turn.reason}."
    return None


def response(result: ToolResult, results: int) -> str:
    """Return the result in <tool_response> tags, after "Error: " if it is not `ok`.

    Cut the content so that `results` responses fit an observation.
    """
    content = result.content[: 3 * TEXT_LENGTH // 4 // results]
    return framed("tool_response", content if result.ok else f"Error: {content}")
