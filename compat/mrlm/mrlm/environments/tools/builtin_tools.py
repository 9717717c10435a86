"""Built-in tools: calculator, web search, Python and files."""

from __future__ import annotations

from mrlm.environments.tools.registry import ToolRegistry
from srl_envs.tasks.tool_use.builtin_tools import TOOLS
from srl_envs.tasks.tool_use.search import SearchProvider


def create_default_tool_registry(
    search: SearchProvider | None = None, workspace: str | None = None
) -> ToolRegistry:
    """All built-in tools: calculator, read_file, write_file, list_files, search and python.

    Python runs in the sandbox. Search is over shipped documents; for the web give a provider, such
    as srl_envs.tasks.tool_use.search.SearxngSearch. Raises SandboxError where Python cannot be
    confined.
    """
    return ToolRegistry(kits=TOOLS, search=search, workspace=workspace)
