"""Tools: functions with JSON schemas, whose calls are validated and answered with text."""

from __future__ import annotations

import functools
import inspect
import json
import logging
import re
import types
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.loading import needed_by
from srl_envs.tasks.tool_use.parsing import ToolCall

RESULT_LENGTH = 2000  # characters of a result
COMPLAINT_LENGTH = 200  # characters of the description of a failed call
CUT = " ... (cut)"

log = logging.getLogger(__name__)

_JSON_TYPES = {
    str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null",
    list: "array", dict: "object",
}  # fmt: skip
_ARGUMENTS = re.compile(
    r"^Args?(?:uments)?:[ \t]*\n(.*?)(?=^\w[\w ]*:[ \t]*$|\Z)", re.M | re.DOTALL
)
_ARGUMENT = re.compile(
    r"^ +(\w+)(?: \([^)]*\))?:\s*(.*?)(?=^ +\w+(?: \([^)]*\))?:|\Z)", re.M | re.S
)


class ToolError(EnvError, ValueError):
    """A failed tool call; the agent reads the message, one short clause."""


@dataclass(frozen=True)
class Tool:
    """A function that an agent may call."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    """JSON schema of the arguments: an object with a property for each."""
    function: Callable[..., Any]
    """Function that receives the arguments by name. The model reads its result: a string
    unchanged, any other value as JSON. The message of a ToolError is the result of a failed call.
    """
    strict: bool = False
    """If True, any other exception ends the run. By default, the model reads the exception."""

    @classmethod
    def of(
        cls, function: Callable[..., Any], name: str | None = None, *, strict: bool = False
    ) -> Tool:
        """Return the tool of a function; see `function_schema`."""
        schema = function_schema(function, name)["function"]
        return cls(**schema, function=function, strict=strict)

    def schema(self) -> dict[str, Any]:
        """Return the schema for function-calling interfaces and chat templates."""
        return _schema(self.name, self.description, dict(self.parameters))


@dataclass(frozen=True)
class ToolResult:
    """Result of a call."""

    name: str
    ok: bool
    content: str
    """Text of the result, or of the error."""


class ToolRegistry:
    """Tools by name.

    Raises:
        EnvConfigError: Two tools have one name, or a schema is invalid.
        ImportError: jsonschema is missing.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self.tools:
                raise EnvConfigError(f"there are two tools named {tool.name!r}: rename one")
            self.tools[tool.name] = tool
            _validator(json.dumps(tool.parameters))

    def schemas(self) -> list[dict[str, Any]]:
        """Return the schemas of all tools, for `tools=` of a chat template."""
        return [tool.schema() for tool in self.tools.values()]

    def call(self, call: ToolCall) -> ToolResult:
        """Validate the arguments and make the call; the result contains any error."""
        tool = self.tools.get(call.name)
        if tool is None:
            close = get_close_matches(call.name[:50], self.tools, n=1)
            guess = f" (did you mean {close[0]!r}?)" if close else ""
            known = ", ".join(self.tools)
            return _failed(call.name, f"there is no tool {call.name[:50]!r}{guess}; {known}")
        complaint = _complaint(tool, call.arguments)
        if complaint:
            return _failed(tool.name, complaint)
        try:
            value = tool.function(**call.arguments)
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        except ToolError as error:
            return _failed(tool.name, str(error))
        except EnvError:
            raise
        except (Exception, SystemExit) as error:  # argparse exits on wrong arguments
            if tool.strict:
                raise
            _log_exception(tool.name, type(error).__name__)
            return _failed(tool.name, f"{type(error).__name__}: {error}")
        return ToolResult(tool.name, True, _cut(text, RESULT_LENGTH))


def _complaint(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """Return a description of the first invalid argument, or an empty string."""
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
        raise EnvConfigError(f"a tool's parameters are no JSON schema: {error.message}") from error
    return jsonschema.Draft202012Validator(schema)


@functools.lru_cache(maxsize=256)
def _log_exception(name: str, kind: str) -> None:
    """Log the current exception, once for each tool and type."""
    log.warning(
        "the tool %s raised %s, which the model reads as the result of its call; "
        "Tool.of(function, strict=True) ends the run instead",
        name,
        kind,
        exc_info=True,
    )


def _failed(name: str, complaint: str) -> ToolResult:
    return ToolResult(name, False, _cut(complaint, COMPLAINT_LENGTH))


def _cut(text: str, length: int) -> str:
    whole = text.encode("utf-8", "backslashreplace").decode()  # Lone surrogates are not text.
    return whole if len(whole) <= length else whole[: length - len(CUT)] + CUT


def function_schema(function: Callable[..., Any], name: str | None = None) -> dict[str, Any]:
    """Return the JSON schema of a function from its signature and its Google-style docstring.

    The layout is that of `transformers.utils.get_json_schema`, except for optional values: their
    type is a list that includes "null", because calls are validated against the schema.

    Returns:
        `{"type": "function", "function": {"name", "description", "parameters"}}`.

    Raises:
        EnvConfigError: The function or an argument lacks a description or a type hint.
    """
    name = name or str(getattr(function, "__name__", type(function).__name__))
    docstring = inspect.getdoc(function) or ""
    description = re.split(r"^\w[\w ]*:[ \t]*$", docstring, maxsplit=1, flags=re.M)[0].strip()
    if not description:
        raise EnvConfigError(f"tool {name} has no docstring: describe the tool in one")
    section = _ARGUMENTS.search(docstring)
    described = dict(_ARGUMENT.findall(section.group(1))) if section else {}
    hints = get_type_hints(function)
    properties, required = {}, []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise EnvConfigError(f"tool {name} takes {parameter}: give every argument a name")
        if parameter.name not in hints or parameter.name not in described:
            raise EnvConfigError(
                f"tool {name}: argument {parameter.name!r} needs a type hint and a line under "
                "'Args:' in the docstring"
            )
        properties[parameter.name] = {
            **_type_schema(hints[parameter.name]),
            "description": " ".join(described[parameter.name].split()),
        }
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        parameters["required"] = required
    return _schema(name, description, parameters)


def _schema(name: str, description: str, parameters: dict[str, Any]) -> dict[str, Any]:
    function = {"name": name, "description": description, "parameters": parameters}
    return {"type": "function", "function": function}


def _type_schema(hint: Any) -> dict[str, Any]:
    """Return the JSON schema of a type hint; raise EnvConfigError for types without one."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if hint in _JSON_TYPES:
        return {"type": _JSON_TYPES[hint]}
    if origin is Literal:
        kinds = sorted({_JSON_TYPES[type(value)] for value in arguments})
        return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return _union_schema([_type_schema(part) for part in arguments])
    if origin is list:
        return {"type": "array", "items": _type_schema(arguments[0])}
    if origin is dict and arguments[0] is str:
        return {"type": "object", "additionalProperties": _type_schema(arguments[1])}
    raise EnvConfigError(f"a tool's argument cannot be a {hint}: JSON has no such type")


def _union_schema(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """Merge schemas: a list of types if each is only a type, else `anyOf`."""
    complex_parts = [part for part in parts if set(part) != {"type"}]
    kinds = [part["type"] for part in parts if set(part) == {"type"}]
    kinds = sorted(kinds, key=lambda kind: (kind == "null", kind))
    if not complex_parts:
        return {"type": kinds}
    return {"anyOf": [*complex_parts, *({"type": kind} for kind in kinds)]}
