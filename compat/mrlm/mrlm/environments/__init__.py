"""Environments for code, mathematics, debate and tool use, local or on a server."""

from mrlm.environments.task import RemoteEnvironment

__all__ = ["RemoteEnvironment"]
