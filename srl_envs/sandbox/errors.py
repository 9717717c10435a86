"""Exceptions of the sandbox itself; what a program does in it is a verdict."""

from __future__ import annotations

from srl_envs.errors import EnvError


class SandboxError(EnvError):
    """The sandbox cannot be started, or protects less than was asked for."""


class NotPlainError(EnvError, ValueError):
    """A value is no plain data, or data from a program cannot be read as such."""
