"""Tool use: questions that need several calls of tools, and one answer."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from mrlm.core.environment import EnvironmentMode, refuse_server_mode
from mrlm.environments.task import TaskEnvironment
from srl_envs.errors import EnvConfigError
from srl_envs.tasks.problem import Problem
from srl_envs.tasks.tool_use.registry import Tool
from srl_envs.tasks.tool_use.search import SearchProvider
from srl_envs.tasks.tool_use.toolbox import Toolbox
from srl_envs.validation import nearest

__all__ = ["Tool", "ToolCollection", "ToolUseEnvironment"]


class ToolCollection:
    """Tools of an environment: built-in sets of srl_envs and the user's own.

    Args:
        tools: Own tools.
        kits: Names of built-in sets, as in srl_envs.tasks.tool_use.toolbox.TOOLS.
        search: Provider of the search tool, instead of the documents that srl_envs contains.
        workspace: Existing folder for the files of the agents, one subfolder each. By default,
            files are in memory.

    Raises:
        EnvConfigError: A set is unknown, or two tools have the same name.
    """

    def __init__(
        self,
        tools: Iterable[Tool] = (),
        *,
        kits: Iterable[str] = (),
        search: SearchProvider | None = None,
        workspace: str | None = None,
    ) -> None:
        self.kits, self.own = tuple(kits), tuple(tools)
        self.search, self.workspace = search, workspace
        self._toolbox = Toolbox(self.kits, search=search, tools=self.own)

    def list_tools(self) -> list[str]:
        """Return the names of all tools."""
        return [*self._toolbox.registry.tools]

    def get(self, name: str) -> Tool:
        """Return a tool by name; files that the tool's function writes are in memory.

        Raises:
            EnvConfigError: There is no tool with the name.
        """
        found = self._toolbox.registry.tools.get(name)
        if found is None:
            raise EnvConfigError(f"there is no tool {name!r}{nearest(name, self.list_tools())}")
        return found


class ToolUseEnvironment(TaskEnvironment):
    """tool_use_v0 of srl_envs.

    The first call of each required tool has a share of the reward, and the correct answer the rest.

    Args:
        tool_registry: Tools of the agent.
        tasks: Questions by srl_envs.tasks.tool_use.generators.asked; by default, generated ones.
        max_turns: Number of steps per episode.
        mode: Must be CLIENT.

    Raises:
        EnvConfigError: An argument is not allowed.
    """

    def __init__(
        self,
        tool_registry: ToolCollection,
        tasks: Sequence[Problem] | None = None,
        max_turns: int = 5,
        mode: EnvironmentMode | str = EnvironmentMode.CLIENT,
    ) -> None:
        refuse_server_mode(mode)
        options: dict[str, Any] = {
            "tools": (*tool_registry.kits, *tool_registry.own),
            "max_cycles": max_turns,
            "search": tool_registry.search,
            "workspace": tool_registry.workspace,
        }
        if tasks is not None:
            options["problems"] = tuple(tasks)
        super().__init__("tool_use_v0", options)
