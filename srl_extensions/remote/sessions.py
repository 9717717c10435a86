"""Sessions of environments on a server: opened, played, limited and ended, for every protocol.

A session is one environment of one client. Its id is 128 random bits. It ends when the client
closes it, when its environment fails or is too slow, or when its lease runs out.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from srl_envs import loading
from srl_envs.errors import EnvError
from srl_envs.validation import number_between, whole_number
from srl_extensions.remote.errors import Refused

EXPIRY_INTERVAL = 1.0
"""Maximum number of seconds between two searches for expired sessions."""
MOST_STEPS = 1_000_000
"""Maximum number of steps of a session between two resets."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SessionLimits:
    """Limits of a server. Raises EnvConfigError for values that are not allowed."""

    max_sessions: int = 1024
    """Maximum number of open sessions."""
    max_sessions_per_client: int = 256
    """Maximum number of open sessions of one client."""
    lease: float = 300.0
    """Seconds without a call after which a session ends."""
    step_seconds: float = 30.0
    """Time limit of a step, a reset or an opening; a slower session ends."""
    threads: int = 4
    """Number of calls that compute at once. One client has all threads but one."""

    def __post_init__(self) -> None:
        for limit in ("max_sessions", "max_sessions_per_client", "threads"):
            whole_number(limit, getattr(self, limit), 1)
        for seconds in ("lease", "step_seconds"):
            number_between(seconds, getattr(self, seconds), 0.01, 1e6)


@dataclass(eq=False)
class Session:
    """One environment of one client."""

    id: str
    client: str
    expires: float
    env: Any = None
    steps: int = 0
    """Number of steps since the last reset."""
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no call uses the session."""


class Sessions:
    """All sessions of a server.

    Args:
        limits: Limits of the server.
        clock: Function that returns the time in seconds, for leases.
    """

    def __init__(self, limits: SessionLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.open_sessions: dict[str, Session] = {}
        self.counts: Counter[str] = Counter()
        """Client -> number of sessions that are open or being opened."""
        self._clock = clock
        self._free = asyncio.Semaphore(limits.threads)
        share = partial(asyncio.Semaphore, max(1, limits.threads - 1))
        self._shares = defaultdict[str, asyncio.Semaphore](share)
        self._expiry: asyncio.Task[None] | None = None

    async def open(
        self,
        client: str,
        make: Callable[[], Any],
        describe: Callable[[Any], Any] = lambda env: None,
    ) -> tuple[str, Any]:
        """Open a session of a new environment.

        Args:
            client: The client, whose sessions are counted.
            make: Constructor of the environment.
            describe: Function that describes the environment.

        Returns:
            The session's id, and the result of `describe`.

        Raises:
            Refused: If the client has too many sessions, or `make` or `describe` fails.
        """
        self._reserve(client)
        if self._expiry is None or self._expiry.done():
            self._expiry = asyncio.ensure_future(self._end_expired())
        session = Session(secrets.token_urlsafe(16), client, self._clock() + self.limits.lease)

        def begin() -> Any:
            session.env = make()
            return describe(session.env)

        try:
            description = await self._compute(session, begin)
        except BaseException:
            self._release(client)
            raise
        self.open_sessions[session.id] = session
        return session.id, description

    async def advance(
        self, client: str, kind: str, session_id: str, act: Callable[[Any], Any]
    ) -> Any:
        """Reset or step the environment of a session, and return the result of `act`.

        Args:
            client: The client that owns the session.
            kind: "reset" or "step".
            session_id: Id of the session.
            act: Function of the environment, called in a thread.

        Raises:
            Refused: If the session has ended or is in use, or `act` fails. If the environment
                failed or was too slow, the session ends.
        """
        session = self.open_sessions.get(session_id)
        if session is None or session.client != client:
            # The same for ended sessions and other clients': their ids are confidential.
            message = "there is no such session: it has ended, or its lease ran out"
            raise Refused("NOT_FOUND", message)
        if not session.idle.is_set():
            raise Refused("FAILED_PRECONDITION", "another call uses the session")
        if kind == "step" and session.steps >= MOST_STEPS:
            raise Refused(
                "RESOURCE_EXHAUSTED",
                f"an episode must have at most {MOST_STEPS} steps, got another: reset the "
                "environment",
            )

        def played() -> Any:
            with loading.closed():  # Options of resets come from the client and may not name code.
                return act(session.env)

        try:
            reply = await self._compute(session, played)
        except Refused as refused:
            if refused.code in ("DEADLINE_EXCEEDED", "INTERNAL"):
                self._forget(session)
            raise
        session.steps = session.steps + 1 if kind == "step" else 0
        return reply

    async def close(self, client: str, session_id: str) -> None:
        """End a session of the client; an ended session is ignored."""
        session = self.open_sessions.get(session_id)
        if session is not None and session.client == client:
            await self._close(session)

    async def end(self) -> None:
        """Close all environments."""
        if self._expiry is not None:
            self._expiry.cancel()
        for session in list(self.open_sessions.values()):
            await self._close(session)

    def expired(self) -> list[Session]:
        """Return the idle sessions whose lease has run out."""
        now = self._clock()
        sessions = self.open_sessions.values()
        return [one for one in sessions if one.expires < now and one.idle.is_set()]

    def _reserve(self, client: str) -> None:
        for present, most, where in (
            (self.counts[client], self.limits.max_sessions_per_client, "per client"),
            (self.counts.total(), self.limits.max_sessions, "on this server"),
        ):
            if present >= most:
                raise Refused(
                    "RESOURCE_EXHAUSTED",
                    f"at most {most} sessions {where} are allowed, got another: close some, or "
                    "let their leases run out",
                )
        self.counts[client] += 1

    def _release(self, client: str) -> None:
        self.counts[client] -= 1
        if not self.counts[client]:
            del self.counts[client]

    def _forget(self, session: Session) -> None:
        if self.open_sessions.pop(session.id, None) is not None:
            self._release(session.client)

    async def _close(self, session: Session) -> None:
        self._forget(session)
        with suppress(Refused, TimeoutError):
            async with asyncio.timeout(self.limits.step_seconds):
                await session.idle.wait()
                await asyncio.shield(_start(session.env.close))

    async def _end_expired(self) -> None:
        while True:
            await asyncio.sleep(min(EXPIRY_INTERVAL, self.limits.lease / 4))
            for session in self.expired():
                await self._close(session)

    async def _compute(self, session: Session, call: Callable[[], Any]) -> Any:
        """Return the result of a call in a thread, which has one of the client's places.

        Python cannot end a thread. A call that is too slow occupies its place until it returns; its
        caller receives the error earlier.
        """
        with ExitStack() as places:
            session.idle.clear()
            places.callback(self._ended, session)
            for semaphore in (self._shares[session.client], self._free):
                await semaphore.acquire()
                places.callback(semaphore.release)
            work = _start(call)
            kept = places.pop_all()
            work.add_done_callback(lambda _: kept.close())
        seconds = self.limits.step_seconds
        try:
            return await asyncio.wait_for(asyncio.shield(work), seconds)
        except TimeoutError as error:
            message = f"the environment took longer than {seconds:g} s, and its session ended"
            raise Refused("DEADLINE_EXCEEDED", message) from error

    def _ended(self, session: Session) -> None:
        session.idle.set()
        session.expires = self._clock() + self.limits.lease


def _start(call: Callable[[], Any]) -> asyncio.Future[Any]:
    """Start a call in a thread, and return the future of its result or its Refused."""
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[Any] = loop.create_future()
    finished.add_done_callback(asyncio.Future.exception)  # retrieved in case the client is gone

    def work() -> None:
        try:
            result = partial(finished.set_result, _attempt(call))
        except Refused as refused:
            # Tracebacks would keep the environment and its records in memory.
            refused.__cause__ = refused.__context__ = None
            result = partial(finished.set_exception, refused.with_traceback(None))
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(result)

    # A daemon: a call that hangs must not keep the process from ending.
    threading.Thread(target=work, name="environment", daemon=True).start()
    return finished


def _attempt(call: Callable[[], Any]) -> Any:
    """Return the result of a call. Raises Refused for every exception of the call."""
    try:
        return call()
    except Refused:
        raise
    except EnvError as error:
        raise Refused("INVALID_ARGUMENT", error) from error
    except BaseException as error:  # also SystemExit: signals reach the main thread only
        logger.exception("an environment failed")
        # The error's own __str__ and __repr__ may fail too; `traceback` handles this.
        text = "".join(traceback.format_exception_only(error)).rstrip()
        raise Refused("INTERNAL", f"the environment failed: {text}") from error
