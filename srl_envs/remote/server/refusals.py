"""Refusals of a server: a status, a reason that is counted, and one line for the client."""

from __future__ import annotations

import grpc

from srl_envs.untrusted import printable

LONGEST = 500
"""Characters of a message: some of it may quote the call."""


class Refused(Exception):
    """A call, or one session of it, is refused; `reason` is the word that is counted."""

    def __init__(self, code: str, reason: str, message: object) -> None:
        line = " ".join(printable(str(message)[: 4 * LONGEST], multiline=False).split())
        super().__init__(line[:LONGEST])
        self.code = grpc.StatusCode[code]
        self.reason = reason
