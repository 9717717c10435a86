"""The environment of tools."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mrlm.core.environment import EnvironmentMode, frozen_only
from mrlm.environments.task import TaskEnvironment
from mrlm.environments.tools.registry import ToolRegistry
from srl_envs.tasks.problem import Problem
from srl_envs.tasks.tool_use.generators import asked


@dataclass(frozen=True)
class ToolUseTask:
    """A question, the tools that it takes, and its answer."""

    question: str
    required_tools: Sequence[str]
    """Names of functions, each needed once."""
    ground_truth: str
    hints: Sequence[str] = ()
    """Told with the question."""

    def problem(self) -> Problem:
        """As srl_envs asks it."""
        told = "\n".join((self.question, *(f"Hint: {hint}" for hint in self.hints)))
        return asked(told, self.ground_truth, required_tools=self.required_tools)


class ToolUseEnvironment(TaskEnvironment):
    """tool_use_v0 of srl_envs, with the tools of a registry.

    Generated questions that those tools suffice for, or `tasks` of yours. Calls that a question
    needs earn their share once, and a right answer the rest. Raises EnvConfigError for wrong
    arguments.
    """

    def __init__(
        self,
        tool_registry: ToolRegistry,
        tasks: Sequence[ToolUseTask] | None = None,
        max_turns: int = 5,
        mode: EnvironmentMode | str = EnvironmentMode.CLIENT,
    ) -> None:
        frozen_only(mode)
        options: dict[str, Any] = {
            "tools": (*tool_registry.kits, *tool_registry.own),
            "max_cycles": max_turns,
            "search": tool_registry.search,
            "workspace": tool_registry.workspace,
        }
        if tasks is not None:
            options["problems"] = tuple(task.problem() for task in tasks)
        super().__init__("tool_use_v0", options)
