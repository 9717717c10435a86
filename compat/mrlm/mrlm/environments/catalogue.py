"""Environments by the names that configurations and the command line give them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from mrlm.core.environment import SimulatedEnvironment
from mrlm.environments.code import CodeExecutionEnvironment
from mrlm.environments.debate import DebateEnvironment
from mrlm.environments.math import MathReasoningEnvironment
from mrlm.environments.tools import ToolUseEnvironment
from mrlm.environments.tools.builtin_tools import create_default_tool_registry
from srl_envs.errors import EnvConfigError
from srl_envs.validation import nearest


def _tools(**settings: Any) -> SimulatedEnvironment:
    return ToolUseEnvironment(create_default_tool_registry(), **settings)


ENVIRONMENTS: Mapping[str, tuple[str, str, Callable[..., SimulatedEnvironment]]] = MappingProxyType(
    {
        "code": (
            "code_v0",
            "programs to write, run against tests in a sandbox",
            CodeExecutionEnvironment,
        ),
        "math": (
            "math_v0",
            "questions of mathematics with one right answer",
            MathReasoningEnvironment,
        ),
        "debate": (
            "debate_v0",
            "argue for or against a motion; a judge decides",
            DebateEnvironment,
        ),
        "tool": ("tool_use_v0", "questions that need tools", _tools),
    }
)
"""Name -> (srl_envs' name, what it is, constructor)."""


def make(name: str, **settings: Any) -> SimulatedEnvironment:
    """The environment of that name; raises EnvConfigError for another, or for wrong settings."""
    return _entry(name)[2](**settings)


def registered_name(name: str) -> str:
    """What srl_envs calls it; its own names are left as they are."""
    return name if name.endswith("_v0") else _entry(name)[0]


def _entry(name: str) -> tuple[str, str, Callable[..., SimulatedEnvironment]]:
    known = "tool" if name == "tools" else name
    if known not in ENVIRONMENTS:
        raise EnvConfigError(f"there is no environment {name!r}{nearest(name, ENVIRONMENTS)}")
    return ENVIRONMENTS[known]
