"""Tool registry: calls checked, made, and answered with text."""

from __future__ import annotations

import functools
import json
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.loading.extras import needed_by
from srl_envs.tasks.tool_use.errors import ToolError
from srl_envs.tasks.tool_use.parsing import ToolCall
from srl_envs.tasks.tool_use.schemas import function_schema

RESULT_LENGTH = 2000  # characters of a result that are told
COMPLAINT_LENGTH = 200  # characters of what is said about a call that is not as it should be
CUT = " ... (cut)"

log = logging.getLogger(__name__)


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
        """Return the tool of a function; see srl_envs.tasks.tool_use.schemas.function_schema."""
        said = function_schema(function, name)["function"]
        return cls(said["name"], said["description"], said["parameters"], function, strict)

    def schema(self) -> dict[str, Any]:
        """As function-calling interfaces and chat templates want it."""
        return {
            "type": "function",
            "function": {
                "name": self.name,
                "description": self.description,
                "parameters": dict(self.parameters),
            },
        }


@dataclass(frozen=True)
class ToolResult:
    """Result of a call."""

    name: str
    ok: bool
    content: str
    """The result, or what was wrong with the call."""


class ToolRegistry:
    """Tools by name.

    Raises EnvConfigError for two of one name or a schema that is none, and ImportError where
    jsonschema is missing.
    """

    def __init__(self, tools: Iterable[Tool]) -> None:
        self.tools: dict[str, Tool] = {}
        for tool in tools:
            if tool.name in self.tools:
                raise EnvConfigError(f"there are two tools named {tool.name!r}: rename one")
            self.tools[tool.name] = tool
            _validator(json.dumps(tool.parameters))

    def schemas(self) -> list[dict[str, Any]]:
        """All tools, for `tools=` of a chat template or of a function-calling interface."""
        return [tool.schema() for tool in self.tools.values()]

    def call(self, call: ToolCall) -> ToolResult:
        """Check the arguments and make the call; what is wrong with it is in the result."""
        tool = self.tools.get(call.name)
        if tool is None:
            close = get_close_matches(call.name[:50], self.tools, n=1)
            guess = f" (did you mean {close[0]!r}?)" if close else ""
            known = ", ".join(self.tools)
            return _failed(call.name, f"there is no tool {call.name[:50]!r}{guess}; {known}")
        wrong = _complaint(tool, call.arguments)
        if wrong:
            return _failed(tool.name, wrong)
        try:
            result = tool.function(**call.arguments)
            told = result if isinstance(result, str) else json.dumps(result, ensure_ascii=False)
        except ToolError as error:
            return _failed(tool.name, str(error))
        except EnvError:
            raise
        except (Exception, SystemExit) as error:  # argparse exits on wrong arguments
            if tool.strict:
                raise
            _log_exception(tool.name, type(error).__name__)
            return _failed(tool.name, f"{type(error).__name__}: {error}")
        return ToolResult(tool.name, True, _cut(told, RESULT_LENGTH))


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


def _complaint(tool: Tool, arguments: Mapping[str, Any]) -> str:
    """What is wrong with a call's arguments, or nothing."""
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


def _failed(name: str, complaint: str) -> ToolResult:
    return ToolResult(name, False, _cut(complaint, COMPLAINT_LENGTH))


def _cut(text: str, length: int) -> str:
    whole = text.encode("utf-8", "backslashreplace").decode()  # lone surrogates are no text
    return whole if len(whole) <= length else whole[: length - len(CUT)] + CUT
