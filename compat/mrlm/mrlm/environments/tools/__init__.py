"""Tool use: questions that need tools, several turns of calls, and one answer."""

from mrlm.environments.tools.environment import ToolUseEnvironment, ToolUseTask
from mrlm.environments.tools.registry import Tool, ToolRegistry

__all__ = ["Tool", "ToolRegistry", "ToolUseEnvironment", "ToolUseTask"]
