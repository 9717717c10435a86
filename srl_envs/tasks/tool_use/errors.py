"""What can go wrong in a tool: it is told to whoever called it."""

from __future__ import annotations

from srl_envs.errors import EnvError


class ToolError(EnvError, ValueError):
    """A call cannot be answered; the message is one short clause for the caller."""
