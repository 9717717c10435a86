"""Router: shares the servers of one base model among the requests of several owners."""

from __future__ import annotations

import asyncio
import math
from collections import defaultdict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from srl_agents.errors import BackendError, ServerUnavailable, ServingError

MAX_WAIT = 600.0
"""Seconds that a request waits for a server, unless configured otherwise."""
MOST_MOVES = 5
"""Servers that may fail under one request before the request counts as the cause."""
REST = 1.0
"""Seconds until a server that failed is tried again."""
SLACK = 8
"""Requests that a server may have more than the least loaded one and still keep its prefixes."""
LARGEST_SCORE = 10.0
"""Limit of a score's size, so that every owner receives a part of the capacity."""
S = TypeVar("S")
T = TypeVar("T")


@dataclass(frozen=True)
class RoutedTask:
    """Properties of a request that routing depends on."""

    owner: str
    """Name of the model whose share of the servers the request uses."""
    cost: int = 1
    """Size in tokens."""
    prefix: Hashable = None
    """Equal for requests with a common beginning, which prefer one server; None for others."""


@dataclass
class OwnerStats:
    """Counts of one owner's successful requests, and the owner's score (`set_score`) or None."""

    done: int = 0
    tokens: int = 0
    """Sum of the costs of these requests."""
    score: float | None = None


@dataclass(eq=False)
class ServerState:
    """One server: limit, counts and state of its requests."""

    server: Any
    capacity: int
    """Limit on the open requests."""
    running: int = 0
    done: int = 0
    rests_until: float = 0.0
    """Time of the event loop before which the server receives no request; 0 after a success."""

    @property
    def up(self) -> bool:
        """False from a request that finds the server unavailable until one succeeds."""
        return self.rests_until == 0.0


class Router(Generic[S]):
    """Router of requests to the servers of one base; a server is any object with a `name`.

    Each server has a limit on open requests. If all are busy, the next request is that of the owner
    with the fewest tokens so far in proportion to its share. A request whose server fails is sent
    to another server, or waits. Methods except `set_score` must be called in one event loop.
    """

    def __init__(self, max_wait: float = MAX_WAIT) -> None:
        """Create a router without servers; `max_wait` is as in `run`."""
        self.owners = defaultdict[str, OwnerStats](OwnerStats)
        self._max_wait = max_wait
        self._states: dict[S, ServerState] = {}
        self._waiting: dict[asyncio.Future[ServerState], RoutedTask] = {}
        """Requests without a server, in the order of their arrival."""
        self._used: dict[str, float] = {}
        """Tokens of each owner divided by the owner's share; the smallest is next."""
        self._clock = 0.0
        """`_used` of the last owner served, from which an owner that was idle continues."""
        self._closed = False

    @property
    def servers(self) -> dict[str, ServerState]:
        """Name -> state and counts of each server that was added and not removed."""
        return {state.server.name: state for state in list(self._states.values())}

    def add(self, server: S, *, capacity: int) -> None:
        """Add a server with at most `capacity` open requests, and send it waiting requests."""
        self._states[server] = ServerState(server, capacity)
        self._dispatch()

    def remove(self, server: S) -> None:
        """Send no further request to a server; its open ones continue. Ignore unknown servers."""
        self._states.pop(server, None)

    def close(self) -> None:
        """Fail waiting and later requests with BackendError; open calls continue."""
        self._closed = True
        for turn in self._waiting:
            if not turn.done():
                turn.set_exception(BackendError("no server takes part any more"))

    def set_score(self, owner: str, score: float) -> None:
        """Set an owner's share of tokens in proportion to exp(score); the default score is 0.

        Raises ServingError if the score is not from -10 to 10.
        """
        if not abs(score) <= LARGEST_SCORE:
            raise ServingError(
                f"score of {owner} must be at most {LARGEST_SCORE:g} in size, got {score}"
            )
        self.owners[owner].score = score

    async def run(self, task: RoutedTask, call: Callable[[S], Awaitable[T]]) -> T:
        """Wait for a free server and return `call(server)`, which sends the request `task`.

        If `call` raises ServerUnavailable, the server receives no requests for 1 second, and `call`
        is repeated with a free one. Other errors of `call` are raised.

        Raises:
            BackendError: After `close`, after `max_wait` seconds without a server in one attempt,
                or after 6 failed attempts.
        """
        owner, trouble = self.owners[task.owner], None
        for _ in range(MOST_MOVES + 1):
            state = await self._turn(task)
            try:
                result = await call(state.server)
            except ServerUnavailable as error:
                trouble, loop = error, asyncio.get_running_loop()
                state.rests_until = loop.time() + REST
                loop.call_later(REST, self._dispatch)
            else:
                state.rests_until = 0.0
                state.done += 1
                owner.done += 1
                owner.tokens += task.cost
                return result
            finally:
                self._leave(state)
        raise BackendError(
            f"{task.owner}: servers failed {MOST_MOVES + 1} times under one request, which may be "
            f"the cause: {trouble}"
        ) from trouble

    async def _turn(self, task: RoutedTask) -> ServerState:
        if self._closed:
            raise BackendError("no server takes part any more")
        turn: asyncio.Future[ServerState] = asyncio.get_running_loop().create_future()
        if all(task.owner != waiting.owner for waiting in self._waiting.values()):
            self._used[task.owner] = max(self._used.get(task.owner, 0.0), self._clock)
        self._waiting[turn] = task
        self._dispatch()
        try:
            async with asyncio.timeout(self._max_wait):
                try:
                    return await turn
                except asyncio.CancelledError:
                    # The request may have been sent just before.
                    if not turn.cancelled() and turn.exception() is None:
                        self._leave(turn.result())
                    raise
        except TimeoutError as error:
            raise BackendError(
                f"{task.owner} waited {self._max_wait:g} s (max_wait) for a server: "
                f"{sum(state.up for state in self._states.values())} of {len(self._states)} answer"
            ) from error
        finally:
            self._waiting.pop(turn, None)

    def _dispatch(self) -> None:
        now = asyncio.get_running_loop().time()
        while True:
            states = list(self._states.values())
            free = [one for one in states if now >= one.rests_until and one.running < one.capacity]
            waiting = [turn for turn in self._waiting if not turn.done()]
            if not free or not waiting:
                return
            turn = min(waiting, key=lambda one: self._used[self._waiting[one].owner])
            task = self._waiting.pop(turn)
            self._clock = self._used[task.owner]
            self._used[task.owner] += task.cost / math.exp(self.owners[task.owner].score or 0.0)
            # The server of the prefix keeps its cache, unless it is busy.
            chosen = min(free, key=lambda state: (state.running / state.capacity, state.done))
            if task.prefix is not None:
                home = states[hash(task.prefix) % len(states)]
                if home in free and home.running <= chosen.running + SLACK:
                    chosen = home
            chosen.running += 1
            turn.set_result(chosen)

    def _leave(self, state: ServerState) -> None:
        state.running -= 1
        self._dispatch()
