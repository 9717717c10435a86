"""Router: shares the servers of one base model among the requests of several owners."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection, Hashable
from dataclasses import dataclass, field
from typing import Generic, Literal, Protocol, TypeVar

from srl_agents.errors import BackendError, ServerUnavailable, ServingError

MAX_WAIT = 600.0
"""Seconds that a request waits for a server, unless configured otherwise."""
MOST_MOVES = 5
"""Servers that may fail under one request before the request counts as the cause."""
LONGEST_REST = 30.0
"""Largest number of seconds until a server that failed receives a request again."""
SLACK = 8
"""Requests that a server may have more than the least loaded one and still keep its prefixes."""
REMEMBERED = 100_000
"""Prefixes whose server is remembered."""
EVEN_SHARE = 0.2
"""Part of the capacity that sharing by priority divides evenly."""


class Named(Protocol):
    """Server as statistics identify it."""

    name: str


S = TypeVar("S", bound=Named)
T = TypeVar("T")


@dataclass(frozen=True)
class Task:
    """Properties of a request that routing depends on."""

    owner: str
    """Model whose requests share capacity."""
    cost: int = 1
    """Size in tokens, the unit of shares."""
    prefix: Hashable = None
    """Equal for requests with a common beginning, which then use one server's cache."""


@dataclass
class OwnerStats:
    """Counts of one owner's requests. Each request is in exactly one of the first four."""

    queued: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    """Failed or cancelled requests."""
    moved: int = 0
    """Moves from a server that failed."""
    tokens: int = 0
    """Sum of the costs of finished requests."""
    longest_wait: float = 0.0
    score: float | None = None


@dataclass
class ServerStats:
    """Counts of one server."""

    up: bool = True
    running: int = 0
    done: int = 0
    moved: int = 0
    """Requests that moved to another server after a failure."""
    tokens: int = 0
    prefix_hits: int = 0
    """Requests at the server of their prefix."""


@dataclass(eq=False)
class _Lane(Generic[S]):
    """One server with its open requests."""

    server: S
    capacity: int
    stats: ServerStats = field(default_factory=ServerStats)
    down: bool = False
    failures: int = 0
    """Failures in a row."""
    rests_until: float = 0.0

    def is_free(self, now: float) -> bool:
        if self.down or now < self.rests_until:
            return False
        # A server that failed is tried with a single request.
        return self.stats.running < (1 if self.failures else self.capacity)


class Router(Generic[S]):
    """Sends requests to the servers of one base.

    Each server has a limit on open requests. When all are busy, the next request belongs to the
    owner with the fewest tokens so far in proportion to its share. A request whose server fails
    moves to another one. All methods except `set_score` and the counts must run in one event loop.
    """

    def __init__(
        self, *, sharing: Literal["fair", "priority"] = "fair", max_wait: float = MAX_WAIT
    ) -> None:
        """Create a router without servers.

        Args:
            sharing: Equal shares ("fair"), or shares that grow with `set_score` ("priority").
            max_wait: Seconds that a request may wait for a server in total.
        """
        if sharing not in ("fair", "priority"):
            raise ServingError(f"sharing must be 'fair' or 'priority', got {sharing!r}")
        if not max_wait > 0:
            raise ServingError(f"max_wait must be above 0 seconds, got {max_wait}")
        self.owners: dict[str, OwnerStats] = {}
        self._by_score, self._max_wait = sharing == "priority", max_wait
        self._lanes: dict[S, _Lane[S]] = {}
        self._queues: dict[str, deque[tuple[Task, asyncio.Future[_Lane[S]]]]] = {}
        self._used: dict[str, float] = {}
        """Tokens of each owner divided by the owner's share; the smallest is next."""
        self._clock = 0.0
        """`_used` of the last owner served, from which an owner that was idle continues."""
        self._places: OrderedDict[Hashable, _Lane[S]] = OrderedDict()

    @property
    def servers(self) -> dict[str, ServerStats]:
        """Counts of each server, by its name."""
        return {lane.server.name: lane.stats for lane in list(self._lanes.values())}

    def add(self, server: S, *, capacity: int) -> None:
        """Add a server with at most `capacity` open requests."""
        if capacity < 1:
            raise ServingError(f"capacity of {server.name} must be at least 1, got {capacity}")
        if server.name in self.servers:
            raise ServingError(f"server name {server.name!r} is used twice: give another name")
        self._lanes[server] = _Lane(server, capacity)
        self._dispatch()

    def remove(self, server: S) -> None:
        """Remove a server. Requests that wait fail if no other server is left."""
        del self._lanes[server]
        waiting = [] if self._lanes else [turn for own in self._queues.values() for _, turn in own]
        for turn in waiting:
            if not turn.done():
                turn.set_exception(BackendError("no server takes part any more"))

    def mark_down(self, server: S) -> None:
        """Send no request to a server until `mark_up`."""
        self._lanes[server].down = True
        self._lanes[server].stats.up = False

    def mark_up(self, server: S) -> None:
        """Send requests to a server again."""
        lane = self._lanes[server]
        lane.down, lane.failures, lane.rests_until, lane.stats.up = False, 0, 0.0, True
        self._dispatch()

    def set_score(self, owner: str, score: float) -> None:
        """Set the score of an owner; a higher score receives a larger share."""
        if not self._by_score:
            raise ServingError("sharing is 'fair', which has no scores: use sharing='priority'")
        if not math.isfinite(score):
            raise ServingError(f"score of {owner} must be a finite number, got {score}")
        self._stats_of(owner).score = score

    async def run(self, task: Task, call: Callable[[S], Awaitable[T]]) -> T:
        """Return the result of `call` for the server that the task is sent to.

        Raises:
            BackendError: If there is no server, after `max_wait` seconds in the queue, after
                MOST_MOVES failed servers, and as raised by `call`.
        """
        owner, loop = self._stats_of(task.owner), asyncio.get_running_loop()
        moves, left, trouble = 0, self._max_wait, None
        try:
            while moves <= MOST_MOVES:
                if not self._lanes:
                    raise BackendError("no server takes part") from trouble
                began = loop.time()
                lane = await self._turn(task, left, first=trouble is not None)
                left -= loop.time() - began
                owner.longest_wait = max(owner.longest_wait, self._max_wait - left)
                owner.running += 1
                failures = lane.failures
                try:
                    result = await call(lane.server)
                except ServerUnavailable as error:
                    trouble = error
                    moves += failures == 0
                    lane.stats.moved += 1
                    owner.moved += 1
                    if lane.failures == failures:  # the first of the requests that failed at once
                        rest = min(2.0**failures, LONGEST_REST)
                        lane.failures, lane.rests_until = failures + 1, loop.time() + rest
                        lane.stats.up = False
                        loop.call_later(rest, self._dispatch)
                else:
                    lane.failures, lane.rests_until, lane.stats.up = 0, 0.0, not lane.down
                    for stats in (lane.stats, owner):
                        stats.done += 1
                        stats.tokens += task.cost
                    return result
                finally:
                    owner.running -= 1
                    self._leave(lane)
            raise BackendError(
                f"{task.owner}: {moves} servers failed under one request, which may be the cause: "
                f"{trouble}"
            ) from trouble
        except BaseException:
            owner.failed += 1
            raise

    async def _turn(self, task: Task, seconds: float, *, first: bool) -> _Lane[S]:
        """Wait until the request is sent to a server, `first` among its owner's."""
        owner = self._stats_of(task.owner)
        turn: asyncio.Future[_Lane[S]] = asyncio.get_running_loop().create_future()
        queue = self._queues.setdefault(task.owner, deque())
        if not queue:
            self._used[task.owner] = max(self._used.get(task.owner, 0.0), self._clock)
        (queue.appendleft if first else queue.append)((task, turn))
        owner.queued += 1
        try:
            self._dispatch()
            async with asyncio.timeout(seconds):
                try:
                    return await turn
                except asyncio.CancelledError:
                    if not turn.cancelled() and turn.exception() is None:  # sent just now
                        self._leave(turn.result())
                    raise
        except TimeoutError as error:
            raise BackendError(
                f"{task.owner} waited {self._max_wait:g} s (max_wait) for a server: "
                f"{sum(own.up for own in self.servers.values())} of {len(self._lanes)} answer"
            ) from error
        finally:
            owner.queued -= 1

    def _dispatch(self) -> None:
        """Send waiting requests to free servers."""
        now = asyncio.get_running_loop().time()
        while True:
            free = [lane for lane in self._lanes.values() if lane.is_free(now)]
            waiting = [owner for owner, queue in self._queues.items() if queue]
            if not free or not waiting:
                return
            owner = min(waiting, key=self._used.__getitem__)
            task, turn = self._queues[owner].popleft()
            if turn.done():  # cancelled
                continue
            self._clock = self._used[owner]
            self._used[owner] += task.cost / self._share(owner, waiting)
            lane = self._chosen(task.prefix, free)
            lane.stats.running += 1
            turn.set_result(lane)

    def _chosen(self, prefix: Hashable, free: Collection[_Lane[S]]) -> _Lane[S]:
        """Return the server of the prefix unless it is busy, or else the least loaded one."""
        least = min(
            free, key=lambda own: (own.failures, own.stats.running / own.capacity, own.stats.tokens)
        )
        if prefix is None:
            return least
        place = self._places.get(prefix)
        if place and place in free and place.stats.running <= least.stats.running + SLACK:
            least = place
            least.stats.prefix_hits += 1
        self._places[prefix] = least
        self._places.move_to_end(prefix)
        if len(self._places) > REMEMBERED:
            self._places.popitem(last=False)
        return least

    def _leave(self, lane: _Lane[S]) -> None:
        """Free the place of a request."""
        lane.stats.running -= 1
        self._dispatch()

    def _share(self, owner: str, waiting: Collection[str]) -> float:
        """Return an owner's share of the capacity among the owners that wait."""
        if not self._by_score:
            return 1 / len(waiting)
        scores = {own: self._stats_of(own).score for own in waiting}
        known = [score for score in scores.values() if score is not None] or [0.0]
        mean, highest = sum(known) / len(known), max(known)
        odds = {
            own: math.exp((mean if score is None else score) - highest)
            for own, score in scores.items()
        }
        softmax = odds[owner] / sum(odds.values())
        return EVEN_SHARE / len(waiting) + (1 - EVEN_SHARE) * softmax

    def _stats_of(self, owner: str) -> OwnerStats:
        return self.owners.setdefault(owner, OwnerStats())
