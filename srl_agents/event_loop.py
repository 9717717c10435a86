"""Execution of coroutines from synchronous code, also where an event loop already runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

T = TypeVar("T")


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine from synchronous code and return its result.

    Inside a running event loop, as in a notebook, the coroutine runs in a loop of another thread.
    An interrupt (Ctrl-C) cancels all tasks.
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
            loop.call_soon_threadsafe(_cancel_all, loop)
            raise


class LoopThread:
    """Event loop in a background thread."""

    def __init__(self, name: str) -> None:
        """`name` is the thread's."""
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    @property
    def runs_here(self) -> bool:
        """True inside the thread of this loop."""
        return threading.current_thread() is self._thread

    def submit(self, coroutine: Coroutine[Any, Any, T]) -> Future[T]:
        """Schedule a coroutine and return its future."""
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def close(self) -> None:
        """Cancel all tasks, wait for their end, and end the thread."""
        self.submit(self._end()).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _run(self) -> None:
        while True:
            try:
                return self._loop.run_forever()
            except (KeyboardInterrupt, SystemExit):
                continue  # a coroutine raised it: its result tells so, to whoever waits for it

    async def _end(self) -> None:
        left = _cancel_all(self._loop, but=asyncio.current_task())
        await asyncio.gather(*left, return_exceptions=True)


async def together(*awaitables: Awaitable[T]) -> list[T]:
    """Return all results in order. The first error is raised after all awaitables have ended."""
    if len(awaitables) < 2:
        return [await one for one in awaitables]
    results = await asyncio.gather(*awaitables, return_exceptions=True)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results  # type: ignore[return-value]  # no exceptions are left


def finished(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits, without an event loop."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    coroutine.close()
    raise RuntimeError(f"{coroutine} waits for something: run it in an event loop")


def _run_in(loop: asyncio.AbstractEventLoop, coroutine: Coroutine[Any, Any, T]) -> T:
    # Not asyncio.run: its handler of SIGINT would keep a first Ctrl-C from a person's prompt.
    try:
        return loop.run_until_complete(coroutine)
    finally:
        try:
            if left := _cancel_all(loop):
                loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        finally:
            loop.close()


def _cancel_all(
    loop: asyncio.AbstractEventLoop, but: asyncio.Task[Any] | None = None
) -> set[asyncio.Task[Any]]:
    left = asyncio.all_tasks(loop) - {but}
    for task in left:
        task.cancel()
    return left
