"""Sessions of environments on a server: opened, played, limited and ended, for every protocol.

A session is one environment of one client. Its id is 128 random bits. It ends when the client
closes it, when its environment fails or hangs, or when its lease runs out.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import threading
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Coroutine, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from srl_envs import loading
from srl_envs.errors import EnvError
from srl_envs.validation import number_between, whole_number
from srl_extensions.remote.errors import Refused, WireError

T = TypeVar("T")
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
    """Time limit of one session's step, reset or opening; a slower session ends."""
    threads: int = 4
    """Number of environments that compute at once."""
    max_hung: int = 16
    """Number of environments that may hang before the server refuses further work."""

    def __post_init__(self) -> None:
        for limit in ("max_sessions", "max_sessions_per_client", "threads", "max_hung"):
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
    turn: int = 0
    """Number of the next reset or step."""
    began: int = 0
    """Number of the last reset."""
    reply: Any = None
    """Reply to the last reset or step, for a client that lost it."""
    busy: asyncio.Future[None] | None = None
    """Future of the call that currently uses the session."""


@dataclass(frozen=True)
class Turn:
    """One reset, step or look of a session: a thread calls `act`, which returns the reply."""

    kind: str
    """"reset", "step", or "look" for one that changes nothing."""
    session: str
    act: Callable[[Session], Any]
    number: int | None = None
    """Number of the reset or step; None for protocols that never send one twice."""


class Sessions:
    """All sessions of a server; `share` is the maximum number of threads of one client.

    If a call is cancelled, the current step is finished, and no further step begins.
    """

    def __init__(
        self,
        limits: SessionLimits,
        share: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits
        self.open_sessions: dict[str, Session] = {}
        self.workers = Workers(
            limits.threads, share or limits.threads, limits.step_seconds, limits.max_hung
        )
        self._clock = clock
        self.counts: Counter[str] = Counter()
        """Client -> sessions that are open or being opened."""
        self._tasks: set[asyncio.Task[Any]] = set()
        self._expiry: asyncio.Task[None] | None = None

    async def open(
        self,
        client: str,
        make: Callable[[], Any],
        copies: int = 1,
        describe: Callable[[Any], Any] = lambda env: None,
    ) -> tuple[list[str], Any]:
        """Open sessions of new environments.

        Returns the ids, and the result of `describe` for the first environment. Raises Refused if
        the client has too many sessions, or `make` or `describe` fails.
        """
        self._reserve(client, copies)
        if self._expiry is None or self._expiry.done():
            self._expiry = asyncio.ensure_future(self._end_expired())
        stop = threading.Event()
        return await self._finish(self._open(client, make, copies, describe, stop), stop)

    async def advance(self, client: str, turns: Sequence[Turn]) -> list[Any]:
        """Make one turn of each of several sessions, and return for each its reply or a Refused.

        A turn with the number of the session's last turn returns the stored reply.
        """
        if len({turn.session for turn in turns}) < len(turns):
            raise WireError("a session occurs twice in the call")
        stop = threading.Event()
        return await self._finish(self._advance(client, turns, stop), stop)

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
        sessions = self.open_sessions.values()
        return [one for one in sessions if one.expires < now and one.busy is None]

    def _reserve(self, client: str, copies: int) -> None:
        for present, most, where in (
            (self.counts[client], self.limits.max_sessions_per_client, "per client"),
            (self.counts.total(), self.limits.max_sessions, "on this server"),
        ):
            if present + copies > most:
                raise Refused(
                    "RESOURCE_EXHAUSTED", "too many sessions",
                    f"at most {most} sessions {where} are allowed, got {present} and {copies} "
                    "more: close some, or let their leases run out",
                )  # fmt: skip
        self.counts[client] += copies

    def _release(self, client: str, copies: int = 1) -> None:
        self.counts[client] -= copies
        if not self.counts[client]:
            del self.counts[client]

    async def _open(
        self,
        client: str,
        make: Callable[[], Any],
        copies: int,
        describe: Callable[[Any], Any],
        stop: threading.Event,
    ) -> tuple[list[str], Any]:
        made: list[Any] = []
        try:
            made = await self.workers.run(client, [make] * copies, stop)
            envs = list(map(unless_refused, made))
            [description] = await self.workers.run(client, [partial(describe, envs[0])], stop)
            unless_refused(description)
        except Refused:
            self._release(client, copies)
            unused = [env.close for env in made if not isinstance(env, Refused)]
            await self.workers.run("", unused, threading.Event())
            raise
        expires = self._clock() + self.limits.lease
        opened = [Session(secrets.token_urlsafe(16), client, env, expires) for env in envs]
        self.open_sessions.update((session.id, session) for session in opened)
        return [session.id for session in opened], description

    async def _advance(
        self, client: str, turns: Sequence[Turn], stop: threading.Event
    ) -> list[Any]:
        found = [self.open_sessions.get(turn.session) for turn in turns]
        own = {one for one in found if one is not None and one.client == client}
        while busy := {session.busy for session in own if session.busy is not None}:
            await asyncio.wait(busy)
        replies: dict[str, Any] = {}
        due: list[tuple[Turn, Session]] = []
        for turn, session in zip(turns, found, strict=True):
            if session is None or session not in own or session.id not in self.open_sessions:
                # The same for ended sessions and other clients': their ids are confidential.
                message = "there is no such session: it has ended, or its lease ran out"
                replies[turn.session] = Refused("NOT_FOUND", "unknown session", message)
                continue
            session.expires = self._clock() + self.limits.lease
            number = session.turn if turn.number is None else turn.number
            if turn.kind == "look" or number == session.turn:
                due.append((turn, session))
            elif number == session.turn - 1 and session.reply is not None:
                replies[turn.session] = session.reply
            else:
                replies[turn.session] = Refused(
                    "FAILED_PRECONDITION", "replayed",
                    f"turn {number} was sent, and the session is at turn {session.turn}",
                )  # fmt: skip
        if due:
            played = await self._play(client, due, stop)
            replies |= {turn.session: one for (turn, _), one in zip(due, played, strict=True)}
        return [replies[turn.session] for turn in turns]

    async def _play(
        self, client: str, due: Sequence[tuple[Turn, Session]], stop: threading.Event
    ) -> list[Any]:
        busy: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        for _, session in due:
            session.busy = busy
        try:
            calls = [partial(_played, turn, session) for turn, session in due]
            results = await self.workers.run(client, calls, stop)
        finally:
            for _, session in due:
                session.busy = None
                session.expires = self._clock() + self.limits.lease
            busy.set_result(None)
        for (_, session), result in zip(due, results, strict=True):
            if isinstance(result, Refused) and result.reason in ("slow", "failed"):
                self._forget(session)
        return results

    def _forget(self, session: Session) -> None:
        if self.open_sessions.pop(session.id, None) is not None:
            self._release(session.client)

    async def _close(self, sessions: Sequence[Session]) -> None:
        for session in sessions:
            self._forget(session)
        while busy := {session.busy for session in sessions if session.busy is not None}:
            await asyncio.wait(busy)
        calls, stop = [session.env.close for session in sessions], threading.Event()
        if calls:
            await self._finish(self.workers.run("", calls, stop))

    async def _end_expired(self) -> None:
        while True:
            await asyncio.sleep(min(EXPIRY_INTERVAL, self.limits.lease / 4))
            await self._close(self.expired())

    async def _finish(self, work: Coroutine[Any, Any, T], stop: threading.Event | None = None) -> T:
        """Return the result of `work`. If cancelled, set `stop` and let `work` end later."""
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        try:
            return await asyncio.shield(task)
        except asyncio.CancelledError:
            if stop is not None:
                stop.set()
            raise

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.exception()  # retrieved here in case the client is gone


def unless_refused(result: Any) -> Any:
    """Return a result. Raises Refused if it is a refusal."""
    if isinstance(result, Refused):
        raise result
    return result


def _played(turn: Turn, session: Session) -> Any:
    with loading.closed():  # options of resets come from the client and may not name code
        if turn.kind == "look":
            return turn.act(session)
        if turn.kind == "step" and session.turn - session.began > MOST_STEPS:
            raise Refused(
                "RESOURCE_EXHAUSTED", "too many steps",
                f"an episode must have at most {MOST_STEPS} steps, got another: reset the "
                "environment",
            )  # fmt: skip
        reply = turn.act(session)
    if turn.kind == "reset":
        session.began = session.turn
    session.turn, session.reply = session.turn + 1, reply
    return reply


class Workers:
    """Thread pool of at most `threads` threads, and at most `share` of them for one client.

    Additional work of a client waits in a queue per client, so no client delays another one's work
    by more than a few calls. Python cannot end a thread: the thread of a call that takes longer
    than `seconds` is abandoned and replaced. With `most_hung` of them, further work is refused.
    """

    def __init__(self, threads: int, share: int, seconds: float, most_hung: int) -> None:
        self._free = asyncio.Semaphore(threads)
        self._shares = defaultdict[str, asyncio.Semaphore](partial(asyncio.Semaphore, share))
        self._seconds = seconds
        self._most_hung = most_hung
        self.hung = 0

    async def run(
        self, client: str, calls: Sequence[Callable[[], Any]], stop: threading.Event
    ) -> list[Any]:
        """Make the calls in order in one thread, and return for each its result or a Refused.

        No call begins after `stop`. The server's own work has no client and is not refused.
        """
        async with self._shares[client], self._free:
            if client and self.hung >= self._most_hung:
                raise Refused("RESOURCE_EXHAUSTED", "hung", f"{self.hung} environments hang")
            results: list[Any] = []
            finished = _start(calls, stop, results)
            done = -1
            while not finished.done() and len(results) > done:
                done = len(results)
                await asyncio.wait([finished], timeout=self._seconds)
            missing = Refused("CANCELLED", "cancelled", "the call ended before its work")
            if not finished.done():
                self.hung += 1
                finished.add_done_callback(self._returned)
                stop.set()
                results = results.copy()  # without the result of the current call
                message = f"the environment took longer than {self._seconds:g} s, and was given up"
                results.append(Refused("DEADLINE_EXCEEDED", "slow", message))
                aborted = "another session of the call hung: send the call again"
                missing = Refused("ABORTED", "not played", aborted)
            return results + [missing] * (len(calls) - len(results))

    def _returned(self, _: asyncio.Future[None]) -> None:
        self.hung -= 1


def _start(
    calls: Sequence[Callable[[], Any]], stop: threading.Event, results: list[Any]
) -> asyncio.Future[None]:
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[None] = loop.create_future()

    def work() -> None:
        for call in calls:
            if stop.is_set():
                break
            try:
                result = _attempt(call)
            except Refused as refused:
                # Tracebacks would keep the environment and its records in memory.
                refused.__cause__ = refused.__context__ = None
                result = refused.with_traceback(None)
            results.append(result)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(finished.set_result, None)

    # A daemon: a call that hangs must not keep the process from ending.
    threading.Thread(target=work, name="environment", daemon=True).start()
    return finished


def _attempt(call: Callable[[], Any]) -> Any:
    """Return the result of a call. Raises Refused for every exception of the call."""
    try:
        return call()
    except Refused:
        raise
    except WireError as error:
        raise Refused("INVALID_ARGUMENT", "malformed", error) from error
    except EnvError as error:
        raise Refused("INVALID_ARGUMENT", "wrong use", error) from error
    except BaseException as error:  # also SystemExit: signals reach the main thread only
        logger.exception("an environment failed")
        # The error's own __str__ and __repr__ may fail too; `traceback` handles this.
        text = "".join(traceback.format_exception_only(error)).rstrip()
        raise Refused("INTERNAL", "failed", f"the environment failed: {text}") from error
