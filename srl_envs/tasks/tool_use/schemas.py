"""JSON schemas of functions, from their names, docstrings and type hints.

The layout is the one that chat templates and function-calling interfaces take, and that
`transformers.utils.get_json_schema` writes, but for values that may be None: their type is a list
with "null" in it, as JSON Schema itself has it, because calls are checked against the schema.
"""

from __future__ import annotations

import inspect
import re
import types
from collections.abc import Callable, Mapping
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from srl_envs.errors import EnvConfigError

_SIMPLE = {
    str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null",
    list: "array", dict: "object",
}  # fmt: skip
_ARGUMENTS = re.compile(
    r"^Args?(?:uments)?:[ \t]*\n(.*?)(?=^\w[\w ]*:[ \t]*$|\Z)", re.M | re.DOTALL
)
_ARGUMENT = re.compile(
    r"^ +(\w+)(?: \([^)]*\))?:\s*(.*?)(?=^ +\w+(?: \([^)]*\))?:|\Z)", re.M | re.S
)


def function_schema(function: Callable[..., Any], name: str | None = None) -> dict[str, Any]:
    """`{"type": "function", "function": {"name", "description", "parameters"}}`.

    The docstring says what the function does and, under "Args:", what each argument is (Google's
    style). Raises EnvConfigError for a function that does not say so of all.
    """
    called = name or getattr(function, "__name__", type(function).__name__)
    said = inspect.getdoc(function) or ""
    description = re.split(r"^\w[\w ]*:[ \t]*$", said, maxsplit=1, flags=re.M)[0].strip()
    if not description:
        raise EnvConfigError(f"tool {called} has no docstring: say what it does")
    listed = _ARGUMENTS.search(said)
    told = dict(_ARGUMENT.findall(listed.group(1))) if listed else {}
    hints = get_type_hints(function)
    properties, required = {}, []
    for parameter in inspect.signature(function).parameters.values():
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY):
            raise EnvConfigError(f"tool {called} takes {parameter}: give every argument a name")
        if parameter.name not in hints or parameter.name not in told:
            raise EnvConfigError(
                f"tool {called}: argument {parameter.name!r} needs a type hint and a line under "
                "'Args:' in the docstring"
            )
        properties[parameter.name] = {
            **type_schema(hints[parameter.name]),
            "description": " ".join(told[parameter.name].split()),
        }
        if parameter.default is parameter.empty:
            required.append(parameter.name)
    parameters: dict[str, Any] = {"type": "object", "properties": properties}
    if required:
        parameters["required"] = required
    return {
        "type": "function",
        "function": {"name": called, "description": description, "parameters": parameters},
    }


def type_schema(hint: Any) -> dict[str, Any]:
    """The JSON schema of values of a type; raises EnvConfigError for one that JSON has not."""
    origin, arguments = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if hint in _SIMPLE:
        return {"type": _SIMPLE[hint]}
    if origin is Literal:
        kinds = sorted({_SIMPLE[type(value)] for value in arguments})
        return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": list(arguments)}
    if origin in (Union, types.UnionType):
        return _either([type_schema(part) for part in arguments])
    if origin is list:
        return {"type": "array", "items": type_schema(arguments[0])}
    if origin is dict and arguments[0] is str:
        return {"type": "object", "additionalProperties": type_schema(arguments[1])}
    raise EnvConfigError(f"a tool's argument cannot be a {hint}: JSON has no such type")


def _either(parts: list[dict[str, Any]]) -> dict[str, Any]:
    """One schema for several; kinds that carry more than a name stay apart."""
    plain = [part["type"] for part in parts if set(part) == {"type"} and part["type"] != "null"]
    null = ["null"] if {"type": "null"} in parts else []
    rest: list[Mapping[str, Any]] = [part for part in parts if set(part) != {"type"}]
    if not rest:
        return {"type": sorted(plain) + null}
    named = [{"type": kind} for kind in plain + null]
    return {"anyOf": [*rest, *named]}
