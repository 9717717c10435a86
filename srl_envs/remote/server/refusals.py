"""Refusals of a server: a status, a reason that is counted, and one line for the client."""

from __future__ import annotations

import grpc

from srl_envs.loading.untrusted import printable
from srl_envs.remote.protocol import environments_pb2 as pb

LONGEST = 500
"""Characters of a message: some of it may quote the call."""


class Refused(Exception):
    """A call, or one session of it, is refused; `reason` is the word that is counted."""

    def __init__(self, code: str, reason: str, message: object) -> None:
        line = " ".join(printable(str(message)[: 4 * LONGEST], multiline=False).split())
        super().__init__(line[:LONGEST])
        self.code = grpc.StatusCode[code]
        self.reason = reason

    def as_message(self) -> pb.Refusal:
        """For one session among several."""
        return pb.Refusal(code=self.code.value[0], message=str(self))
