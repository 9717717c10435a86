"""Built-in tools: calculator, files, search and Python."""

from __future__ import annotations

from mrlm.environments.tools import ToolCollection
from srl_envs.tasks.tool_use.builtin_tools import TOOLS, SearchProvider


def create_default_tool_registry(search: SearchProvider | None = None) -> ToolCollection:
    """Return a ToolCollection of all built-in tools; Python runs in the sandbox.

    Without a search provider, search is over documents that srl_envs contains. An environment with
    these tools raises SandboxError if Python cannot be confined on this machine.
    """
    return ToolCollection(TOOLS, search)
