"""Tools and their registry."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from srl_envs.errors import EnvConfigError
from srl_envs.tasks.tool_use import tools
from srl_envs.tasks.tool_use.builtin_tools import Toolbox
from srl_envs.tasks.tool_use.search import SearchProvider
from srl_envs.validation import nearest


class Tool(tools.Tool):
    """A function that an agent may call; `parameters` are a JSON schema."""

    def call(self, **arguments: Any) -> Any:
        """What the function gives, for arguments that nobody checked; raises what it raises."""
        return self.function(**arguments)

    def to_schema(self) -> dict[str, Any]:
        """As function-calling interfaces want it."""
        return self.schema()


class ToolRegistry:
    """Tools for an environment: sets of srl_envs' own (`kits`, names of its TOOLS), and yours.

    `search` is asked instead of the shipped documents; files are in memory, or with `workspace`, an
    existing folder, in a folder of each agent's own within it. Raises EnvConfigError for unknown
    kits and for two tools of one name.
    """

    def __init__(
        self,
        tools: Iterable[tools.Tool] = (),
        *,
        kits: Iterable[str] = (),
        search: SearchProvider | None = None,
        workspace: str | None = None,
    ) -> None:
        self.kits, self.own = tuple(kits), tuple(tools)
        self.search, self.workspace = search, workspace
        self._box = self._filled()

    def register(self, tool: tools.Tool) -> None:
        """Add a tool of yours."""
        self.own = (*self.own, tool)
        self._box = self._filled()

    def get(self, name: str) -> Tool:
        """A tool, to be called here; files that it writes are this registry's own, in memory."""
        found = self._box.registry.tools.get(name)
        if found is None:
            raise EnvConfigError(f"there is no tool {name!r}{nearest(name, self.list_tools())}")
        return Tool(found.name, found.description, found.parameters, found.function)

    def list_tools(self) -> list[str]:
        """The names of all tools."""
        return [*self._box.registry.tools]

    def get_schemas(self) -> list[dict[str, Any]]:
        """All tools, as function-calling interfaces want them."""
        return self._box.registry.schemas()

    def _filled(self) -> Toolbox:
        return Toolbox(self.kits, search=self.search, tools=self.own)
