"""Errors of remote environments."""

from __future__ import annotations

from srl_envs.errors import EnvError
from srl_envs.untrusted import printable

LONGEST = 500
"""Maximum length of a refusal's message, which may quote the call."""


class RemoteError(EnvError):
    """Error for a server that is unreachable or refuses a call.

    Args:
        message: One line.
        code: gRPC status, such as NOT_FOUND.
    """

    def __init__(self, message: str, code: str = "UNKNOWN") -> None:
        super().__init__(message)
        self.code = code


class WireError(EnvError, ValueError):
    """Error for a value or message outside the protocol."""


class Refused(Exception):
    """Refusal of a call.

    Args:
        code: gRPC status, such as NOT_FOUND.
        message: Text for the client; control characters are escaped.
    """

    def __init__(self, code: str, message: object) -> None:
        line = " ".join(printable(str(message)[: 4 * LONGEST], multiline=False).split())
        super().__init__(line[:LONGEST])
        self.code = code
