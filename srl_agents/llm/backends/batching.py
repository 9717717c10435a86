"""Batching of the requests of coroutines that wait at the same time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Generic, Protocol, TypeVar
from weakref import WeakKeyDictionary

from srl_agents.errors import BackendError

QUIET = 10
"""Turns of the event loop without another request until a batch is taken: more than an episode
takes from its answers to its next requests."""


class OfConversation(Protocol):
    """A request that says which conversation it goes on with."""

    @property
    def conversation(self) -> int | None:
        """See token_backend.Request."""
        ...


Q = TypeVar("Q", bound=OfConversation)
A = TypeVar("A")


class Batcher(Generic[Q, A]):
    """Gathers requests until every coroutine that could make another one waits.

    That does not depend on the clock: the same episodes give the same batches, in the order in
    which their conversations began. Nothing else runs in the event loop while a batch is taken.
    """

    def __init__(self, take: Callable[[Sequence[Q]], Sequence[A]]) -> None:
        """`take` gives something for each request, in order: its completion, from a model in this
        process; what to await, where answers come over a network."""
        self._take = take
        self._waiting: WeakKeyDictionary[
            asyncio.AbstractEventLoop, list[tuple[Q, asyncio.Future[A]]]
        ] = WeakKeyDictionary()

    def submit(self, request: Q) -> asyncio.Future[A]:
        """What is given for the request, from the next batch of the running event loop."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[A] = loop.create_future()
        waiting = self._waiting.setdefault(loop, [])
        waiting.append((request, future))
        if len(waiting) == 1:
            loop.call_soon(self._turn, loop, 1, 0)
        return future

    def _turn(self, loop: asyncio.AbstractEventLoop, counted: int, quiet: int) -> None:
        """One turn of the loop, in which `counted` requests had come and none for `quiet` turns."""
        waiting = self._waiting[loop]
        if len(waiting) > counted:
            quiet = 0
        if quiet < QUIET:
            loop.call_soon(self._turn, loop, len(waiting), quiet + 1)
            return
        del self._waiting[loop]
        wanted = [(request, future) for request, future in waiting if not future.cancelled()]
        wanted.sort(key=lambda one: -1 if one[0].conversation is None else one[0].conversation)
        try:
            taken = self._take([request for request, _ in wanted])
        except Exception as error:
            for _, future in wanted:
                future.set_exception(error)
            if isinstance(error, BackendError):
                return
            raise  # a fault of ours, which the event loop tells of too
        for (_, future), given in zip(wanted, taken, strict=True):
            future.set_result(given)
