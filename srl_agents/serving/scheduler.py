"""Scheduler of requests over model servers: fair shares, bounded queues and waits, failover."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, TypeVar

from srl_agents.errors import BackendError, QueueFull, ServerUnavailable, ServingError
from srl_agents.serving.scheduling.fair_queue import FairQueue, equal_shares, shares_by_score
from srl_agents.serving.scheduling.requests import (
    OwnerStats,
    Request,
    SchedulerStats,
    ServerStats,
    Task,
)
from srl_agents.serving.scheduling.routing import Member, Named, PrefixRouter

QUEUE_LIMIT = 10_000
MAX_WAIT = 600.0  # seconds
MOST_MOVES = 5  # servers that went down under one request, until it is thought to be the cause
S = TypeVar("S", bound=Named)
T = TypeVar("T")


@dataclass
class _Pool(Generic[S]):
    """The servers of one base and what waits for them."""

    queue: FairQueue[Request[Member[S]]]
    members: dict[S, Member[S]] = field(default_factory=dict)
    router: PrefixRouter[S] = field(default_factory=PrefixRouter)


class Scheduler(Generic[S]):
    """Shares servers of model bases among owners' requests.

    Of the requests that wait for a base, the owner furthest behind its share is next
    (fair_queue.py); it goes to the server that has its prefix cached or to the least loaded one
    (routing.py). A request whose server goes down goes to another one, before its owner's others.

    All methods belong into the event loop in which `run` is awaited, but for `set_score` and
    `stats`, which any thread may call.
    """

    def __init__(
        self,
        *,
        sharing: Literal["fair", "priority"] = "fair",
        queue_limit: int = QUEUE_LIMIT,
        max_wait: float = MAX_WAIT,
        temperature: float = 1.0,
        floor: float = 0.2,
    ) -> None:
        """`queue_limit`: requests of one owner that may wait; `max_wait`: seconds in the queue.

        With "fair" sharing the owners that wait have equal shares of the tokens; with "priority"
        the part `floor` of all is shared evenly and the rest by softmax(score / temperature).
        Raises ServingError for values that are none.
        """
        if sharing not in ("fair", "priority"):
            raise ServingError(f"sharing must be 'fair' or 'priority', got {sharing!r}")
        if queue_limit < 1 or not max_wait > 0:
            raise ServingError(
                f"queue_limit must be at least 1 and max_wait above 0 seconds, got {queue_limit} "
                f"and {max_wait}"
            )
        if not (temperature > 0 and 0 < floor <= 1):
            raise ServingError(
                "temperature must be above 0 and floor above 0 and at most 1, so that nobody "
                f"starves, got {temperature} and {floor}"
            )
        self._by_score = sharing == "priority"
        self._queue_limit, self._max_wait = queue_limit, max_wait
        self._temperature, self._floor = temperature, floor
        self._pools: dict[str, _Pool[S]] = {}
        self._owners: dict[str, OwnerStats] = {}

    def add(self, server: S, *, base: str = "", capacity: int) -> None:
        """Let a server take part, with up to `capacity` requests under way.

        Raises ServingError for a capacity below 1 and a name that another server has.
        """
        if capacity < 1:
            raise ServingError(f"capacity of {server.name} must be at least 1, got {capacity}")
        for pool in self._pools.values():
            if any(server.name == other.name for other in pool.members):
                raise ServingError(
                    f"a server {server.name!r} takes part already: name it otherwise"
                )
        pool = self._pools.setdefault(base, _Pool(FairQueue(self._shares)))
        pool.members[server] = Member(server, capacity, ServerStats(base))
        self._dispatch(pool)

    def remove(self, server: S) -> None:
        """Send a server nothing more; what is under way there comes to its end.

        What waits for its base fails where this was the last one.
        """
        pool, member = self._find(server)
        member.down = True
        del pool.members[server]
        if not pool.members:
            for request in pool.queue.items():
                self._give_up(pool, request, self._no_server(request.task.base))

    def mark_down(self, server: S) -> None:
        """A server is dead: what is under way there is cancelled and goes to the others."""
        _, member = self._find(server)
        member.down = True
        calls, member.calls = member.calls, set()
        for call in calls:
            call.cancel()

    def mark_up(self, server: S) -> None:
        """A server is there again, started anew: nothing is cached in it."""
        pool, member = self._find(server)
        member.come_up()
        self._dispatch(pool)

    def set_score(self, owner: str, score: float) -> None:
        """The higher, the larger the owner's share.

        Raises ServingError for a score that is no number, and with sharing "fair".
        """
        if not self._by_score:
            raise ServingError("sharing is 'fair', which has no scores: give sharing='priority'")
        if not math.isfinite(score):
            raise ServingError(f"score of {owner} must be a number, got {score}")
        self._stats_of(owner).score = score

    def stats(self) -> SchedulerStats:
        """What has happened so far, and what is under way."""
        servers = {
            member.server.name: replace(member.stats, up=member.usable)
            for pool in list(self._pools.values())
            for member in list(pool.members.values())
        }
        owners = {owner: replace(stats) for owner, stats in list(self._owners.items())}
        return SchedulerStats(servers, owners)

    async def run(self, task: Task, call: Callable[[S], Awaitable[T]]) -> T:
        """What `call` returns for the server that the task is sent to, when its turn has come.

        Raises QueueFull at once, and BackendError where it waited for more than max_wait seconds
        in all, where no server of its base takes part and where MOST_MOVES servers went down under
        it. What the call raises is raised, but for ServerUnavailable: the server is left alone for
        a while and the task goes to another one, or waits for one.
        """
        pool, owner = self._pools.get(task.base), self._stats_of(task.owner)
        if pool is None or not pool.members:
            owner.failed += 1
            raise self._no_server(task.base)
        if owner.queued >= self._queue_limit:
            owner.refused += 1
            raise QueueFull(
                f"{task.owner}: {owner.queued} requests wait, and its queue holds no more "
                "(queue_limit): ask for fewer at once, or add servers"
            )
        request: Request[Member[S]] = Request(task=task)
        pool.queue.push(task.owner, request)
        try:
            while True:
                member = await self._turn(pool, request)
                try:
                    result = await self._call(pool, member, request, call)
                except ServerUnavailable as error:
                    member.stats.moved += 1
                    owner.moved += 1
                    self._put_back(pool, request, error)
                else:
                    owner.done += 1
                    owner.tokens += task.cost
                    return result
        except asyncio.CancelledError:
            owner.cancelled += 1
            raise
        except Exception:
            owner.failed += 1
            raise

    async def _turn(self, pool: _Pool[S], request: Request[Member[S]]) -> Member[S]:
        """Wait until the request is sent somewhere."""
        loop = asyncio.get_running_loop()
        request.turn, request.since, request.queued = loop.create_future(), loop.time(), True
        self._stats_of(request.task.owner).queued += 1
        self._dispatch(pool)
        if request.turn.done():
            return request.turn.result()
        left = self._max_wait - request.waited
        timer = loop.call_later(
            left, lambda: self._give_up(pool, request, self._late(pool, request))
        )
        try:
            return await request.turn
        except asyncio.CancelledError:
            self._drop(pool, request)
            if not request.turn.cancelled() and request.turn.exception() is None:
                self._end(pool, request.turn.result(), request)  # its turn came just then
            raise
        finally:
            timer.cancel()

    async def _call(
        self,
        pool: _Pool[S],
        member: Member[S],
        request: Request[Member[S]],
        call: Callable[[S], Awaitable[T]],
    ) -> T:
        """Send the request; raises ServerUnavailable where the server went down meanwhile."""
        lives, trial = member.lives, not member.usable
        under_way = asyncio.ensure_future(call(member.server))
        member.calls.add(under_way)
        try:
            result = await under_way
        except asyncio.CancelledError as error:
            this = asyncio.current_task()
            if under_way in member.calls or (this and this.cancelling()):
                raise  # given up by whoever asked
            request.moves += 1
            raise ServerUnavailable(f"{member.server.name} went down") from error
        except ServerUnavailable:
            request.moves += not trial
            if lives == member.lives and (trial or member.usable):
                loop = asyncio.get_running_loop()
                loop.call_later(member.rest(loop.time()), self._dispatch, pool)
            raise
        except Exception:
            member.stats.failed += 1
            raise
        else:
            if lives == member.lives:
                member.recover()
            member.stats.done += 1
            member.stats.tokens += request.task.cost
            return result
        finally:
            member.calls.discard(under_way)
            self._end(pool, member, request)

    def _dispatch(self, pool: _Pool[S]) -> None:
        """Send what waits to servers that are free."""
        while pool.queue:
            now = asyncio.get_running_loop().time()
            members = list(pool.members.values())
            free = [member for member in members if member.free(now)]
            if not free:
                return
            owner = pool.queue.next_owner()
            request, member = pool.router.choose(pool.queue.waiting(owner), members, free)
            if request.turn.done():  # given up, and not gone yet
                self._drop(pool, request)
                continue
            request.charge = pool.queue.take(owner, request, request.task.cost)
            self._left_queue(request, now)
            pool.router.went(request.task.prefix, member)
            member.begin(request.task.cost)
            self._stats_of(owner).running += 1
            request.turn.set_result(member)

    def _end(self, pool: _Pool[S], member: Member[S], request: Request[Member[S]]) -> None:
        member.end(request.task.cost)
        self._stats_of(request.task.owner).running -= 1
        self._dispatch(pool)

    def _put_back(
        self, pool: _Pool[S], request: Request[Member[S]], error: ServerUnavailable
    ) -> None:
        """Queue a request whose server went down; raises BackendError where it may not go on."""
        if not pool.members:
            raise self._no_server(request.task.base) from error
        if request.moves > MOST_MOVES:
            raise BackendError(
                f"{request.task.owner}: {request.moves} servers went down under one request, which "
                f"may be the cause: {error}"
            ) from error
        request.trouble = error
        pool.queue.put_back(request.task.owner, request, request.charge)

    def _give_up(self, pool: _Pool[S], request: Request[Member[S]], error: BackendError) -> None:
        """End a request's waiting by an error."""
        self._drop(pool, request)
        if not request.turn.done():
            request.turn.set_exception(error)

    def _drop(self, pool: _Pool[S], request: Request[Member[S]]) -> None:
        """Take a request out of the queue, if it is there."""
        if request.queued:
            pool.queue.remove(request.task.owner, request)
            self._left_queue(request, asyncio.get_running_loop().time())

    def _left_queue(self, request: Request[Member[S]], now: float) -> None:
        request.queued = False
        request.waited += now - request.since
        owner = self._stats_of(request.task.owner)
        owner.queued -= 1
        owner.waited += now - request.since
        owner.longest_wait = max(owner.longest_wait, request.waited)

    def _late(self, pool: _Pool[S], request: Request[Member[S]]) -> BackendError:
        up = sum(member.usable for member in pool.members.values())
        error = BackendError(
            f"{request.task.owner} waited {self._max_wait:g} s (max_wait) for a server: {up} of "
            f"{len(pool.members)} answer, {len(pool.queue)} requests wait"
        )
        error.__cause__ = request.trouble
        return error

    def _no_server(self, base: str) -> BackendError:
        there = ", ".join(repr(name) for name, pool in self._pools.items() if pool.members)
        return BackendError(f"no server of base {base!r} takes part; bases: {there or 'none'}")

    def _shares(self, owners: Collection[str]) -> Mapping[str, float]:
        if not self._by_score:
            return equal_shares(owners)
        scores = {owner: self._stats_of(owner).score for owner in owners}
        known = {owner: score for owner, score in scores.items() if score is not None}
        return shares_by_score(owners, known, self._temperature, self._floor)

    def _stats_of(self, owner: str) -> OwnerStats:
        return self._owners.setdefault(owner, OwnerStats())

    def _find(self, server: S) -> tuple[_Pool[S], Member[S]]:
        for pool in self._pools.values():
            if server in pool.members:
                return pool, pool.members[server]
        raise ServingError(f"server {server.name!r} takes no part: add it first")
