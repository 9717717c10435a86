"""Routing of requests over servers of one base: the least loaded, or who has the prefix cached."""

from __future__ import annotations

import asyncio
import math
from collections import OrderedDict
from collections.abc import Collection, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Generic, Protocol, TypeVar

from srl_agents.serving.scheduling.requests import Request, ServerStats

FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0  # seconds until an unavailable server is tried again
SLACK = 0.25  # how far above the mean a server's load may be for a request that it has cached
REMEMBERED = 100_000  # prefixes whose server is known; the longest unused are forgotten first
LOOKAHEAD = 32  # requests of one owner that are looked at for one whose prefix a free server has
PATIENCE = 32  # how often an owner's oldest request may be passed over for that


class Named(Protocol):
    """A server, as routing and statistics know it."""

    name: str
    """Unlike the other servers' names."""


S = TypeVar("S", bound=Named)


@dataclass(eq=False)
class Member(Generic[S]):
    """One server among those that requests are shared over."""

    server: S
    capacity: int
    stats: ServerStats
    calls: set[asyncio.Future[Any]] = field(default_factory=set)
    """What is under way there."""
    load: int = 0
    """Costs of what is under way, in sum."""
    lives: int = 0
    """How often it has come up again: what was cached before is gone, and failures of before say
    nothing about it."""
    down: bool = False
    """Told to be down; until it is told to be up."""
    resting_until: float | None = None
    """It was unavailable to a request; from then on it is tried with one."""
    _pause: float = field(default=FIRST_PAUSE, repr=False)

    def free(self, now: float) -> bool:
        """Whether it may get a request at a time in seconds."""
        if self.down:
            return False
        if self.resting_until is None:
            return self.stats.running < self.capacity
        return self.stats.running == 0 and now >= self.resting_until

    @property
    def usable(self) -> bool:
        """Whether it is thought to answer."""
        return not self.down and self.resting_until is None

    def begin(self, cost: int) -> None:
        """A request goes there."""
        self.stats.running += 1
        self.load += cost

    def end(self, cost: int) -> None:
        """A request has come to its end, whichever."""
        self.stats.running -= 1
        self.load -= cost

    def rest(self, now: float) -> float:
        """It was unavailable; returns the seconds until it is tried again, which double."""
        pause, self._pause = self._pause, min(2 * self._pause, LONGEST_PAUSE)
        self.resting_until = now + pause
        return pause

    def recover(self) -> None:
        """It answers."""
        self.resting_until, self._pause = None, FIRST_PAUSE

    def come_up(self) -> None:
        """It was started anew."""
        self.down = False
        self.lives += 1
        self.recover()


class PrefixRouter(Generic[S]):
    """Sends a request to the server that has its prefix cached, else to the least loaded one.

    A prefix is where its last request went. It is kept to unless that server is at its capacity or
    has more requests than (1 + SLACK) times its part of all that are under way, rounded up: the
    bound of Mirrokni, Thorup and Zadimoghaddam 2018, "Consistent Hashing with Bounded Loads". The
    place is remembered rather than hashed, so it stays right when a request had to go elsewhere,
    and when servers come and go.

    Where all servers are busy, one that becomes free gets the first of an owner's next requests
    that suits it; the oldest is passed over PATIENCE times at most: delay scheduling (Zaharia et
    al. 2010).
    """

    def __init__(self) -> None:
        self._places: OrderedDict[Hashable, tuple[Member[S], int]] = OrderedDict()

    def choose(
        self,
        waiting: Iterable[Request[Any]],
        members: Sequence[Member[S]],
        free: Collection[Member[S]],
    ) -> tuple[Request[Any], Member[S]]:
        """One of an owner's waiting requests, the oldest first, and the free server for it."""
        oldest: Request[Any] | None = None
        for request in islice(waiting, LOOKAHEAD):
            oldest = oldest or request
            place = self._place(request.task.prefix)
            if place is None or (place in free and _within_bound(place, members)):
                if request is not oldest:
                    oldest.passed_over += 1
                return request, place or _least_loaded(free)
            if oldest.passed_over >= PATIENCE:
                break
        assert oldest is not None, "nothing waits"
        return oldest, _least_loaded(free)

    def went(self, prefix: Hashable, member: Member[S]) -> None:
        """A request with a prefix goes to a server."""
        if prefix is None:
            return
        place = self._place(prefix)
        member.stats.prefix_hits += place is member
        member.stats.prefix_misses += place is not None and place is not member
        self._places[prefix] = (member, member.lives)
        self._places.move_to_end(prefix)
        if len(self._places) > REMEMBERED:
            self._places.popitem(last=False)

    def _place(self, prefix: Hashable) -> Member[S] | None:
        """Where a prefix is cached; None where nobody has it."""
        member, lives = self._places.get(prefix, (None, 0))
        return member if member and member.usable and member.lives == lives else None


def _least_loaded(free: Iterable[Member[S]]) -> Member[S]:
    """By tokens under way for its capacity; of equals, who had least to do so far.

    One that rests comes last, for it may be dead.
    """
    return min(free, key=lambda one: (not one.usable, one.load / one.capacity, one.stats.tokens))


def _within_bound(place: Member[S], members: Iterable[Member[S]]) -> bool:
    usable = [member for member in members if member.usable]
    under_way = sum(member.stats.running for member in usable) + 1
    part = place.capacity / sum(member.capacity for member in usable)
    return place.stats.running + 1 <= math.ceil((1 + SLACK) * under_way * part)
