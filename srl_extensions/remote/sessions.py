"""Sessions of environments on a server: opened, played, limited and ended, for every protocol.

A session is one environment. Its id is 128 random bits. It ends when the client
closes it, when its environment fails or is too slow, or when its lease runs out.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import secrets
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from typing import Any

from srl_envs import loading
from srl_envs.errors import EnvError
from srl_envs.validation import number_between, whole_number
from srl_extensions.remote.messages import RemoteError

EXPIRY_INTERVAL = 1.0
"""Maximum number of seconds between two searches for expired sessions."""

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class SessionLimits:
    """Limits of a server, times in seconds; EnvConfigError for values that are not allowed."""

    max_sessions: int = 256
    """Maximum number of open sessions."""
    lease: float = 300.0
    """Seconds without a call after which a session ends."""
    step_seconds: float = 30.0
    """Time limit of a step, a reset or an opening; a slower session ends."""
    threads: int = 4
    """Maximum number of calls that compute at once; others wait."""

    def __post_init__(self) -> None:
        for limit in ("max_sessions", "threads"):
            whole_number(limit, getattr(self, limit), 1)
        for seconds in ("lease", "step_seconds"):
            number_between(seconds, getattr(self, seconds), 0.01, 1e6)


@dataclass(eq=False)
class Session:
    """One environment of a client; `env` is None until the environment is constructed."""

    id: str
    expires: float = 0.0
    """Time of the server's clock at which the lease runs out, if no call uses the session."""
    env: Any = None
    idle: asyncio.Event = field(default_factory=asyncio.Event)
    """Set while no call uses the session."""


class Sessions:
    """Sessions of a server, used in one event loop. `clock` returns seconds, for leases."""

    def __init__(self, limits: SessionLimits, clock: Callable[[], float] = time.monotonic) -> None:
        self.limits = limits
        self.open_sessions: dict[str, Session] = {}
        """Id -> session that is open or being opened."""
        self._clock = clock
        self._threads = asyncio.Semaphore(limits.threads)
        self._expiry: asyncio.Task[None] | None = None
        self._closing: set[asyncio.Task[None]] = set()

    async def open(self, make: Callable[[], tuple[Any, Any]]) -> tuple[str, Any]:
        """Open a session and return its id and the description of its environment.

        `make`, called in a thread, returns the environment and the description. Raises RemoteError
        if `max_sessions` are open, or if `make` fails or takes longer than `step_seconds`.
        """
        if len(self.open_sessions) >= self.limits.max_sessions:
            raise RemoteError(
                f"at most {self.limits.max_sessions} sessions are allowed, got another: "
                "close some, or let their leases run out",
                "RESOURCE_EXHAUSTED",
            )
        if self._expiry is None or self._expiry.done():
            self._expiry = asyncio.ensure_future(self._end_expired())
        session = Session(secrets.token_urlsafe(16))
        self.open_sessions[session.id] = session

        def begin() -> Any:
            session.env, description = make()
            return description

        try:
            return session.id, await self._compute(session, begin)
        except BaseException:
            self._discard(session)
            raise

    async def advance(self, session_id: str, act: Callable[[Any], Any]) -> Any:
        """Return `act(environment)` for a session, called in a thread.

        Raises RemoteError if there is no such session, another call uses the session, or `act`
        fails. The session ends if `act` exceeds `step_seconds` or raises another exception than
        EnvError.
        """
        session = self.open_sessions.get(session_id)
        if session is None:
            message = "there is no such session: it has ended, or its lease ran out"
            raise RemoteError(message, "NOT_FOUND")
        if not session.idle.is_set():
            raise RemoteError("another call uses the session", "FAILED_PRECONDITION")

        def played() -> Any:
            with loading.closed():  # Options of resets come from the client and may not name code.
                return act(session.env)

        try:
            return await self._compute(session, played)
        except RemoteError as refused:
            if refused.code in ("DEADLINE_EXCEEDED", "INTERNAL"):
                self._discard(session)
            raise

    async def close(self, session_id: str) -> None:
        """End a session, if open; close its environment if it is idle within `step_seconds`."""
        session = self.open_sessions.get(session_id)
        if session is not None:
            await self._close(session)

    async def end(self) -> None:
        """End all sessions as `close`, and the search for expired ones."""
        if self._expiry is not None:
            self._expiry.cancel()
        for session in list(self.open_sessions.values()):
            await self._close(session)

    def expired(self) -> list[Session]:
        """Return the sessions whose lease has run out and that no call uses; do not end them."""
        now = self._clock()
        sessions = self.open_sessions.values()
        return [one for one in sessions if one.expires < now and one.idle.is_set()]

    def _discard(self, session: Session) -> None:
        self.open_sessions.pop(session.id, None)
        task = asyncio.ensure_future(self._close(session))
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)

    async def _close(self, session: Session) -> None:
        self.open_sessions.pop(session.id, None)
        with suppress(RemoteError, TimeoutError):
            async with asyncio.timeout(self.limits.step_seconds):
                await session.idle.wait()
                if session.env is not None:
                    await asyncio.shield(_start(session.env.close))

    async def _end_expired(self) -> None:
        while True:
            await asyncio.sleep(min(EXPIRY_INTERVAL, self.limits.lease / 4))
            for session in self.expired():
                await self._close(session)

    async def _compute(self, session: Session, call: Callable[[], Any]) -> Any:
        """Call in a thread and return the result; RemoteError if it fails or is too slow."""
        with ExitStack() as held:
            session.idle.clear()
            held.callback(self._release, session)
            await self._threads.acquire()
            held.callback(self._threads.release)
            work = _start(call)
            until_done = held.pop_all()
            work.add_done_callback(lambda _: until_done.close())
        seconds = self.limits.step_seconds
        try:
            return await asyncio.wait_for(asyncio.shield(work), seconds)
        except TimeoutError as error:
            message = f"the environment took longer than {seconds:g} s, and its session ended"
            raise RemoteError(message, "DEADLINE_EXCEEDED") from error

    def _release(self, session: Session) -> None:
        session.idle.set()
        session.expires = self._clock() + self.limits.lease


def _start(call: Callable[[], Any]) -> asyncio.Future[Any]:
    """Call in a new thread; return a future, in which every exception is a RemoteError."""
    finished: concurrent.futures.Future[Any] = concurrent.futures.Future()

    def work() -> None:
        try:
            finished.set_result(_attempt(call))
        except RemoteError as refused:
            finished.set_exception(refused)

    # A daemon: a call that hangs must not keep the process from ending.
    threading.Thread(target=work, name="environment", daemon=True).start()
    return asyncio.wrap_future(finished)


def _attempt(call: Callable[[], Any]) -> Any:
    try:
        return call()
    except RemoteError:
        raise
    except EnvError as error:
        raise RemoteError(error) from error
    except BaseException as error:  # also SystemExit: signals reach the main thread only
        logger.exception("an environment failed")
        # The error's own __str__ and __repr__ may fail too; `traceback` handles this.
        text = "".join(traceback.format_exception_only(error)).rstrip()
        raise RemoteError(f"the environment failed: {text}", "INTERNAL") from error
