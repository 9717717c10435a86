"""Exceptions of the tools; the caller is told their text."""

from __future__ import annotations

from srl_envs.errors import EnvError


class ToolError(EnvError, ValueError):
    """A call cannot be answered; the message is one short clause for the caller."""
