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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
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
    """Time limit of a step, a reset or an opening; the sessions of a slower call end."""
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
    env: Any
    expires: float
    steps: int | None = None
    """Number of steps since the last reset; None before the first reset."""
    work: asyncio.Future[Any] | None = None
    """Last call that used the environment."""

    @property
    def busy(self) -> bool:
        """True while a call uses the environment."""
        return self.work is not None and not self.work.done()


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
        copies: int = 1,
        describe: Callable[[Any], Any] = lambda env: None,
    ) -> tuple[list[str], Any]:
        """Open sessions of new environments.

        Args:
            client: The client, whose sessions are counted.
            make: Constructor of one environment.
            copies: Number of sessions.
            describe: Function that describes an environment.

        Returns:
            The ids, and the result of `describe` for the last environment.

        Raises:
            Refused: If the client has too many sessions, or `make` or `describe` fails.
        """
        self._reserve(client, copies)
        if self._expiry is None or self._expiry.done():
            self._expiry = asyncio.ensure_future(self._end_expired())
        envs: list[Any] = []
        calls = [lambda: envs.append(make())] * copies
        try:
            *_, description = await self._compute(client, [*calls, lambda: describe(envs[-1])])
        except BaseException:
            self._release(client, copies)
            raise
        expires = self._clock() + self.limits.lease
        opened = [Session(secrets.token_urlsafe(16), client, env, expires) for env in envs]
        self.open_sessions.update((session.id, session) for session in opened)
        return [session.id for session in opened], description

    async def advance(
        self, client: str, kind: str, acts: Mapping[str, Callable[[Session], Any]]
    ) -> list[Any]:
        """Reset, step or read several sessions, one after another, and return the results.

        No step begins after a refusal or after the call is cancelled.

        Args:
            client: The client that owns the sessions.
            kind: "reset", "step", or "look" for a call that changes nothing.
            acts: Id of a session -> function of the session, which returns the reply.

        Raises:
            Refused: For the first session that is refused. If an environment failed or was too
                slow, all sessions of the call end.
        """
        sessions = []
        for each in acts:
            session = self.open_sessions.get(each)
            if session is None or session.client != client:
                # The same for ended sessions and other clients': their ids are confidential.
                message = "there is no such session: it has ended, or its lease ran out"
                raise Refused("NOT_FOUND", message)
            if session.busy:
                raise Refused("FAILED_PRECONDITION", "another call uses the session")
            sessions.append(session)
        calls = [
            partial(_played, kind, session, act)
            for session, act in zip(sessions, acts.values(), strict=True)
        ]
        try:
            return await self._compute(client, calls, sessions)
        except Refused as refused:
            if refused.code in ("DEADLINE_EXCEEDED", "INTERNAL"):
                for session in sessions:
                    self._forget(session)
            raise

    async def close(self, client: str, ids: Iterable[str]) -> int:
        """End those of the client's sessions that are open, and return their number."""
        found = [self.open_sessions[one] for one in set(ids) if one in self.open_sessions]
        own = [session for session in found if session.client == client]
        await self._close(own)
        return len(own)

    async def end(self) -> None:
        """Close all environments."""
        if self._expiry is not None:
            self._expiry.cancel()
        await self._close(list(self.open_sessions.values()))

    def expired(self) -> list[Session]:
        """Return the idle sessions whose lease has run out."""
        now = self._clock()
        return [one for one in self.open_sessions.values() if one.expires < now and not one.busy]

    def _reserve(self, client: str, copies: int) -> None:
        for present, most, where in (
            (self.counts[client], self.limits.max_sessions_per_client, "per client"),
            (self.counts.total(), self.limits.max_sessions, "on this server"),
        ):
            if present + copies > most:
                raise Refused(
                    "RESOURCE_EXHAUSTED",
                    f"at most {most} sessions {where} are allowed, got {present} and {copies} "
                    "more: close some, or let their leases run out",
                )
        self.counts[client] += copies

    def _release(self, client: str, copies: int = 1) -> None:
        self.counts[client] -= copies
        if not self.counts[client]:
            del self.counts[client]

    def _forget(self, session: Session) -> None:
        if self.open_sessions.pop(session.id, None) is not None:
            self._release(session.client)

    async def _close(self, sessions: Sequence[Session]) -> None:
        for session in sessions:
            self._forget(session)
        if works := {session.work for session in sessions if session.work is not None}:
            await asyncio.wait(works)
        for session in sessions:
            with suppress(Refused):
                await self._compute(session.client, [session.env.close])

    async def _end_expired(self) -> None:
        while True:
            await asyncio.sleep(min(EXPIRY_INTERVAL, self.limits.lease / 4))
            await self._close(self.expired())

    async def _compute(
        self,
        client: str,
        calls: Sequence[Callable[[], Any]],
        sessions: Sequence[Session] = (),
    ) -> list[Any]:
        """Make the calls in order in one thread, and return their results.

        Python cannot end a thread. A call that is too slow occupies its client's thread until it
        returns, but its caller does not wait for it.
        """
        stop = threading.Event()
        try:
            async with asyncio.timeout(None) as limit:
                work = asyncio.ensure_future(self._run(client, calls, stop, limit))
                for session in sessions:
                    session.work = work
                work.add_done_callback(partial(self._finished, sessions))
                return await asyncio.shield(work)
        except TimeoutError as error:
            seconds = self.limits.step_seconds
            message = f"the environment took longer than {seconds:g} s, and its session ended"
            raise Refused("DEADLINE_EXCEEDED", message) from error
        finally:
            stop.set()

    async def _run(
        self,
        client: str,
        calls: Sequence[Callable[[], Any]],
        stop: threading.Event,
        limit: asyncio.Timeout,
    ) -> list[Any]:
        async with self._shares[client], self._free:
            if stop.is_set():
                return []
            loop = asyncio.get_running_loop()
            limit.reschedule(loop.time() + self.limits.step_seconds * len(calls))
            finished: asyncio.Future[list[Any]] = loop.create_future()

            def work() -> None:
                try:
                    result = partial(finished.set_result, _results(calls, stop))
                except Refused as refused:
                    # Tracebacks would keep the environment and its records in memory.
                    refused.__cause__ = refused.__context__ = None
                    result = partial(finished.set_exception, refused.with_traceback(None))
                with suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(result)

            # A daemon: a call that hangs must not keep the process from ending.
            threading.Thread(target=work, name="environment", daemon=True).start()
            return await finished

    def _finished(self, sessions: Sequence[Session], work: asyncio.Future[Any]) -> None:
        for session in sessions:
            session.expires = self._clock() + self.limits.lease
        if not work.cancelled():
            work.exception()  # retrieved here in case the client is gone


def _played(kind: str, session: Session, act: Callable[[Session], Any]) -> Any:
    with loading.closed():  # options of resets come from the client and may not name code
        if kind == "step" and (session.steps or 0) >= MOST_STEPS:
            raise Refused(
                "RESOURCE_EXHAUSTED",
                f"an episode must have at most {MOST_STEPS} steps, got another: reset the "
                "environment",
            )
        reply = act(session)
    if kind == "reset":
        session.steps = 0
    elif kind == "step" and session.steps is not None:
        session.steps += 1
    return reply


def _results(calls: Sequence[Callable[[], Any]], stop: threading.Event) -> list[Any]:
    """Return the results of the calls. Raises Refused for every exception of a call."""
    try:
        results = []
        for call in calls:
            if stop.is_set():
                break
            results.append(call())
        return results
    except Refused:
        raise
    except EnvError as error:
        raise Refused("INVALID_ARGUMENT", error) from error
    except BaseException as error:  # also SystemExit: signals reach the main thread only
        logger.exception("an environment failed")
        # The error's own __str__ and __repr__ may fail too; `traceback` handles this.
        text = "".join(traceback.format_exception_only(error)).rstrip()
        raise Refused("INTERNAL", f"the environment failed: {text}") from error
