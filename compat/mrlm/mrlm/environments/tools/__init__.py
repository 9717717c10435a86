"""Tool use: questions that need several calls of tools, and one answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from mrlm.environments.task import TaskEnvironment
from srl_envs.tasks.tool_use.builtin_tools import SearchProvider
from srl_envs.tasks.tool_use.tools import Tool

__all__ = ["Tool", "ToolCollection", "ToolUseEnvironment"]


@dataclass(frozen=True)
class ToolCollection:
    """Tools of an environment."""

    tools: Sequence[str | Tool]
    """Tools, or names from srl_envs.tasks.tool_use.builtin_tools.TOOLS."""
    search: SearchProvider | None = None
    """Provider of the search tool; None searches the documents that srl_envs contains."""


class ToolUseEnvironment(TaskEnvironment):
    """tool_use_v0 of srl_envs.

    The first answer ends the episode, with score 1 if the answer is correct. Before, each needed
    call adds an equal share of 0.2 to the score once. The reward is the increase of the score,
    less 0.01 in every step after the first. `options` are other options of the environment, such
    as `problems` (from srl_envs.tasks.tool_use.generators.asked) and `max_cycles`.
    """

    def __init__(self, tool_registry: ToolCollection, **options: Any) -> None:
        super().__init__("tool_use_v0", {**vars(tool_registry), **options})
