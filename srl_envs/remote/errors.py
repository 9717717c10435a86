"""Exceptions of environments behind a server."""

from __future__ import annotations

from srl_envs.errors import EnvError


class RemoteError(EnvError):
    """A server did not answer, or refused a call; `code` is gRPC's status, such as NOT_FOUND."""

    def __init__(self, message: str, code: str = "UNKNOWN") -> None:
        super().__init__(message)
        self.code = code


class WireError(EnvError, ValueError):
    """What is no value, space or call of the protocol, or has no form in it."""
