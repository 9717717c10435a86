"""Execution of coroutines from synchronous code, also inside a running event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from operator import attrgetter
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from srl_agents.errors import BackendError

T = TypeVar("T")
Q = TypeVar("Q")
A = TypeVar("A")

QUIET = 10
"""Iterations of the event loop without a new request after which a batch is sampled."""


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in a new event loop and return its result or raise its error.

    If the caller is inside a running event loop, as in a notebook, the new loop runs in another
    thread while the caller is blocked. Ctrl-C cancels all tasks and raises KeyboardInterrupt.
    """
    loop = asyncio.new_event_loop()
    try:
        is_running = asyncio.get_running_loop() is not None
    except RuntimeError:
        is_running = False
    if not is_running:
        return _run_in(loop, coroutine)
    with ThreadPoolExecutor(1, "coroutine") as thread:
        result = thread.submit(_run_in, loop, coroutine)
        try:
            return result.result()
        except KeyboardInterrupt:
            loop.call_soon_threadsafe(_cancel_all)
            raise


class LoopThread:
    """Event loop in a daemon thread, which the constructor starts under `name`."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Schedule a coroutine in the thread's loop; return its future at once."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        """Cancel all tasks, and block until they and the thread have ended."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _run(self) -> None:
        with asyncio.Runner(loop_factory=lambda: self._loop):  # It cancels the tasks at its end.
            while True:
                try:
                    return self._loop.run_forever()
                except (KeyboardInterrupt, SystemExit):
                    continue  # A coroutine raised it, and its future contains it.


async def together(*awaitables: Awaitable[T]) -> list[T]:
    """Await all arguments concurrently and return a list of their results, in argument order.

    If some fail, all others still run to their end. Then the error of the first failed argument is
    raised.
    """
    if len(awaitables) < 2:
        return [await one for one in awaitables]
    results = await asyncio.gather(*awaitables, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value]  # no exceptions are left


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine without an event loop and return its result; RuntimeError if it suspends."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError(f"{coroutine} suspended: run it in an event loop")


class Batcher(Generic[Q, A]):
    """Collector of requests, which are sampled in one batch when no more are submitted.

    A batch is complete after QUIET iterations of the event loop without a new request. `sample`
    maps a batch to one result per request and blocks the loop; all futures receive its error.
    `order` maps a request to the number by which a batch is sorted, None first. If `order` is None,
    a batch has the order of submission.
    """

    def __init__(
        self,
        sample: Callable[[Sequence[Q]], Sequence[A]],
        order: Callable[[Q], int | None] | None = attrgetter("conversation"),
    ) -> None:
        self._sample, self._order = sample, order
        self._waiting: WeakKeyDictionary[
            asyncio.AbstractEventLoop, list[tuple[Q, asyncio.Future[A]]]
        ] = WeakKeyDictionary()

    def submit(self, request: Q) -> asyncio.Future[A]:
        """Add a request to the running event loop's next batch; return a future of its result."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[A] = loop.create_future()
        waiting = self._waiting.setdefault(loop, [])
        waiting.append((request, future))
        if len(waiting) == 1:
            loop.call_soon(self._iterate, loop, 1, 0)
        return future

    def _iterate(self, loop: asyncio.AbstractEventLoop, counted: int, quiet: int) -> None:
        waiting = self._waiting[loop]
        if len(waiting) > counted:
            quiet = 0
        if quiet < QUIET:
            loop.call_soon(self._iterate, loop, len(waiting), quiet + 1)
            return
        del self._waiting[loop]
        batch = [(request, future) for request, future in waiting if not future.cancelled()]
        if (order := self._order) is not None:
            batch.sort(key=lambda one: -1 if (n := order(one[0])) is None else n)
        try:
            results = self._sample([request for request, _ in batch])
        except Exception as error:
            for _, future in batch:
                future.set_exception(error)
            if isinstance(error, BackendError):
                return
            raise  # The event loop logs the traceback of a programming error.
        for (_, future), result in zip(batch, results, strict=True):
            future.set_result(result)


def _run_in(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    # The runner cancels remaining tasks. Its method `run` would install a handler of SIGINT, and
    # the first Ctrl-C would not interrupt the prompt of a human player.
    with asyncio.Runner(loop_factory=lambda: loop):
        return loop.run_until_complete(coroutine)


def _cancel_all() -> None:
    for task in asyncio.all_tasks():
        task.cancel()
