"""Error of remote environments."""

from __future__ import annotations

from srl_envs.errors import EnvError
from srl_envs.untrusted import printable

LONGEST = 500
"""Maximum length of a message."""


class RemoteError(EnvError):
    """Error for a server that cannot be reached, a refused call, or an invalid message.

    Args:
        message: Text, reduced to one line of at most 500 printable characters.
        code: Name of a gRPC status, such as "NOT_FOUND".
    """

    def __init__(self, message: object, code: str = "INVALID_ARGUMENT") -> None:
        line = " ".join(printable(str(message)[: 4 * LONGEST], multiline=False).split())
        super().__init__(line[:LONGEST])
        self.code = code
