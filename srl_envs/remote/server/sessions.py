"""Sessions of a server: whose they are, until when, and how far they have come."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from srl_envs.remote.protocol import environments_pb2 as pb
from srl_envs.remote.server.refusals import Refused

REMEMBERED = 10_000
"""Ids of ended sessions, so that errors say what became of them."""


@dataclass(eq=False)
class Session:
    """One environment of one client."""

    id: str
    client: str
    env: Any
    expires: float
    turn: int = 0
    """The number of the next reset or step."""
    began: int = 0
    """The turn number of the last reset."""
    reply: pb.Frame | None = None
    """That of the last turn, for a client that lost it."""
    busy: asyncio.Future[None] | None = None
    """Done when the call that uses it is."""


class Sessions:
    """All open sessions. An id is 128 random bits; only the client that opened it may use it."""

    def __init__(
        self,
        most: int,
        most_per_client: int,
        lease: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most, self._most_per_client = most, most_per_client
        self._lease, self._clock = lease, clock
        self._open: dict[str, Session] = {}
        self._count: Counter[str] = Counter()
        self._ended: dict[str, str] = {}

    def __len__(self) -> int:
        return len(self._open)

    def of(self, client: str) -> int:
        """How many sessions the client has, or is about to have."""
        return self._count[client]

    def reserve(self, client: str, copies: int) -> None:
        """Set room aside for the client's new sessions. Raises Refused where there is none."""
        for there, most, whose in (
            (self._count[client], self._most_per_client, "you may have"),
            (self._count.total(), self._most, "this server has in all"),
        ):
            if there + copies > most:
                raise Refused(
                    "RESOURCE_EXHAUSTED", "too many sessions",
                    f"{copies} more sessions, with {there} open, are more than the {most} that "
                    f"{whose}: close some, or let their leases run out",
                )  # fmt: skip
        self._count[client] += copies

    def release(self, client: str, copies: int = 1) -> None:
        """Give room back that was set aside or used."""
        self._count[client] -= copies
        if not self._count[client]:
            del self._count[client]

    def add(self, client: str, env: Any) -> Session:
        """Open a session in room that was set aside."""
        session = Session(secrets.token_urlsafe(16), client, env, self._clock() + self._lease)
        self._open[session.id] = session
        return session

    def find(self, session_id: str, client: str) -> Session:
        """The client's session, its lease renewed. Raises Refused where it has none of this id."""
        session = self._open.get(session_id)
        if session is None or session.client != client:
            # What became of the sessions of others is nobody's business: an id is known or not.
            what = self._ended.get(session_id)
            if what is None:
                raise Refused("NOT_FOUND", "unknown session", "there is no such session")
            raise Refused("NOT_FOUND", what, f"the session has ended: {what}")
        self.renew(session)
        return session

    def renew(self, session: Session) -> None:
        """Begin its lease anew."""
        session.expires = self._clock() + self._lease

    def end(self, session: Session, why: str) -> None:
        """Forget a session; its environment is the caller's to close."""
        if self._open.pop(session.id, None) is None:
            return
        self.release(session.client)
        self._ended[session.id] = why
        if len(self._ended) > REMEMBERED:
            del self._ended[next(iter(self._ended))]  # the first that ended

    def expired(self) -> Iterator[Session]:
        """Those whose lease has run out, and that no call uses."""
        now = self._clock()
        for session in list(self._open.values()):
            if session.expires < now and session.busy is None:
                yield session

    def all(self) -> Mapping[str, Session]:
        """Id -> session."""
        return self._open
