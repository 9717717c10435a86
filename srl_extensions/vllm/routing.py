"""Router: shares the servers of each base model among the requests of several owners."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Collection, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, replace
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
    base: str = ""
    """Base model; only its servers receive the request."""
    prefix: Hashable = None
    """Equal for requests with a common beginning, which then use one server's cache."""


@dataclass
class OwnerStats:
    """Counts of one owner's requests. Each request is in exactly one of the first five."""

    queued: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    cancelled: int = 0
    moved: int = 0
    """Moves from a server that failed."""
    tokens: int = 0
    """Sum of the costs of finished requests."""
    waited: float = 0.0
    """Sum of the seconds in the queue."""
    longest_wait: float = 0.0
    score: float | None = None


@dataclass
class ServerStats:
    """Counts of one server."""

    base: str
    up: bool = True
    running: int = 0
    done: int = 0
    moved: int = 0
    """Requests that this server failed to answer and that were moved."""
    tokens: int = 0
    prefix_hits: int = 0
    """Requests at the server of their prefix."""
    prefix_misses: int = 0
    """Requests whose prefix is in the cache of another server."""


@dataclass(frozen=True)
class RouterStats:
    """Copy of all counts, by the names of servers and owners."""

    servers: Mapping[str, ServerStats]
    owners: Mapping[str, OwnerStats]


@dataclass(eq=False)
class _Lane(Generic[S]):
    """One server with its open requests."""

    server: S
    capacity: int
    stats: ServerStats
    down: bool = False
    failures: int = 0
    """Failures in a row."""
    rests_until: float = 0.0

    @property
    def usable(self) -> bool:
        return not self.down and not self.failures

    def is_free(self, now: float) -> bool:
        if self.down or now < self.rests_until:
            return False
        # A server that failed is tried with a single request.
        return self.stats.running < (1 if self.failures else self.capacity)


@dataclass(eq=False)
class _Pool(Generic[S]):
    """Servers of one base, and the requests that wait for them."""

    lanes: dict[S, _Lane[S]] = field(default_factory=dict)
    queues: dict[str, deque[tuple[Task, asyncio.Future[_Lane[S]]]]] = field(default_factory=dict)
    used: dict[str, float] = field(default_factory=dict)
    """Tokens of each owner divided by the owner's share; the smallest is next."""
    clock: float = 0.0
    """Value of `used` of the last owner served; an owner that was idle continues from there."""
    places: OrderedDict[Hashable, _Lane[S]] = field(default_factory=OrderedDict)

    def choose(self, task: Task, free: Sequence[_Lane[S]]) -> _Lane[S]:
        """Return the server of the prefix unless it is busy, or else the least loaded one."""
        least = min(
            free, key=lambda own: (own.failures, own.stats.running / own.capacity, own.stats.tokens)
        )
        if task.prefix is None:
            return least
        place = self.places.get(task.prefix)
        chosen = least
        if (
            place is not None
            and place in free
            and place.stats.running <= least.stats.running + SLACK
        ):
            chosen = place
        if place is not None:
            chosen.stats.prefix_hits += chosen is place
            chosen.stats.prefix_misses += chosen is not place
        self.places[task.prefix] = chosen
        self.places.move_to_end(task.prefix)
        if len(self.places) > REMEMBERED:
            self.places.popitem(last=False)
        return chosen


class Router(Generic[S]):
    """Sends each request to a server of its base.

    Each server has a limit on open requests. When all are busy, the next request belongs to the
    owner with the fewest tokens so far in proportion to its share. A request whose server fails
    moves to another one. All methods except `set_score` and `stats` must run in one event loop.
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
        self._by_score, self._max_wait = sharing == "priority", max_wait
        self._pools: dict[str, _Pool[S]] = {}
        self._owners: dict[str, OwnerStats] = {}

    def add(self, server: S, *, base: str = "", capacity: int) -> None:
        """Add a server with at most `capacity` open requests."""
        if capacity < 1:
            raise ServingError(f"capacity of {server.name} must be at least 1, got {capacity}")
        if server.name in self.stats().servers:
            raise ServingError(f"server name {server.name!r} is used twice: give another name")
        pool = self._pools.setdefault(base, _Pool())
        pool.lanes[server] = _Lane(server, capacity, ServerStats(base))
        self._dispatch(pool)

    def remove(self, server: S) -> None:
        """Remove a server. Requests that wait for its base fail if no other server is left."""
        pool = self._pool_of(server)
        del pool.lanes[server]
        waiting = [] if pool.lanes else [one for queue in pool.queues.values() for one in queue]
        for task, turn in waiting:
            if not turn.done():
                turn.set_exception(self._no_server(task.base))

    def mark_down(self, server: S) -> None:
        """Send no request to a server until `mark_up`."""
        self._pool_of(server).lanes[server].down = True

    def mark_up(self, server: S) -> None:
        """Send requests to a server again."""
        pool = self._pool_of(server)
        lane = pool.lanes[server]
        lane.down, lane.failures, lane.rests_until = False, 0, 0.0
        self._dispatch(pool)

    def set_score(self, owner: str, score: float) -> None:
        """Set the score of an owner; a higher score receives a larger share."""
        if not self._by_score:
            raise ServingError("sharing is 'fair', which has no scores: use sharing='priority'")
        if not math.isfinite(score):
            raise ServingError(f"score of {owner} must be a finite number, got {score}")
        self._stats_of(owner).score = score

    def stats(self) -> RouterStats:
        """Return a copy of all counts."""
        lanes = [lane for pool in list(self._pools.values()) for lane in list(pool.lanes.values())]
        servers = {own.server.name: replace(own.stats, up=own.usable) for own in lanes}
        owners = {owner: replace(stats) for owner, stats in list(self._owners.items())}
        return RouterStats(servers, owners)

    async def run(self, task: Task, call: Callable[[S], Awaitable[T]]) -> T:
        """Return the result of `call` for the server that the task is sent to.

        Raises:
            BackendError: If the base has no server, after `max_wait` seconds in the queue, after
                MOST_MOVES failed servers, and as raised by `call`.
        """
        pool, owner = self._pools.get(task.base), self._stats_of(task.owner)
        moves, left, trouble = 0, self._max_wait, None
        loop = asyncio.get_running_loop()
        try:
            while moves <= MOST_MOVES:
                if pool is None or not pool.lanes:
                    raise self._no_server(task.base) from trouble
                began = loop.time()
                lane = await self._turn(pool, task, left, first=trouble is not None)
                left -= loop.time() - began
                owner.longest_wait = max(owner.longest_wait, self._max_wait - left)
                failures = lane.failures
                owner.running += 1
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
                        loop.call_later(rest, self._dispatch, pool)
                else:
                    lane.failures, lane.rests_until = 0, 0.0
                    for stats in (lane.stats, owner):
                        stats.done += 1
                        stats.tokens += task.cost
                    return result
                finally:
                    owner.running -= 1
                    self._leave(pool, lane)
            raise BackendError(
                f"{task.owner}: {moves} servers failed under one request, which may be the cause: "
                f"{trouble}"
            ) from trouble
        except asyncio.CancelledError:
            owner.cancelled += 1
            raise
        except Exception:
            owner.failed += 1
            raise

    async def _turn(self, pool: _Pool[S], task: Task, seconds: float, *, first: bool) -> _Lane[S]:
        """Wait until the request is sent to a server, `first` among its owner's."""
        loop, owner = asyncio.get_running_loop(), self._stats_of(task.owner)
        turn: asyncio.Future[_Lane[S]] = loop.create_future()
        queue = pool.queues.setdefault(task.owner, deque())
        if not queue:
            pool.used[task.owner] = max(pool.used.get(task.owner, 0.0), pool.clock)
        (queue.appendleft if first else queue.append)((task, turn))
        owner.queued += 1
        began = loop.time()
        try:
            self._dispatch(pool)
            async with asyncio.timeout(seconds):
                try:
                    return await turn
                except asyncio.CancelledError:
                    if not turn.cancelled() and turn.exception() is None:  # sent just now
                        self._leave(pool, turn.result())
                    raise
        except TimeoutError as error:
            up = sum(lane.usable for lane in pool.lanes.values())
            raise BackendError(
                f"{task.owner} waited {self._max_wait:g} s (max_wait) for a server: {up} of "
                f"{len(pool.lanes)} answer"
            ) from error
        finally:
            owner.queued -= 1
            owner.waited += loop.time() - began

    def _dispatch(self, pool: _Pool[S]) -> None:
        """Send waiting requests to free servers."""
        while True:
            now = asyncio.get_running_loop().time()
            free = [lane for lane in pool.lanes.values() if lane.is_free(now)]
            waiting = [owner for owner, queue in pool.queues.items() if queue]
            if not free or not waiting:
                return
            owner = min(waiting, key=pool.used.__getitem__)
            task, turn = pool.queues[owner].popleft()
            if turn.done():  # cancelled
                continue
            pool.clock = pool.used[owner]
            pool.used[owner] += task.cost / self._share(owner, waiting)
            lane = pool.choose(task, free)
            lane.stats.running += 1
            turn.set_result(lane)

    def _leave(self, pool: _Pool[S], lane: _Lane[S]) -> None:
        """Free the place of a request."""
        lane.stats.running -= 1
        self._dispatch(pool)

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

    def _no_server(self, base: str) -> BackendError:
        there = [name for name, pool in self._pools.items() if pool.lanes]
        return BackendError(f"no server of base {base!r} takes part; bases: {there or 'none'}")

    def _stats_of(self, owner: str) -> OwnerStats:
        return self._owners.setdefault(owner, OwnerStats())

    def _pool_of(self, server: S) -> _Pool[S]:
        for pool in self._pools.values():
            if server in pool.lanes:
                return pool
        raise ServingError(f"server {server.name!r} takes no part: add it first")
