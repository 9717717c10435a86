"""Event loop in a thread of its own, in which all requests over a network run.

An SDK's client belongs to the event loop that its connections were opened in, while episodes are
played in many loops, one after another and at the same time.
"""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

from srl_agents.event_loop import LoopThread

T = TypeVar("T")

_STARTING = threading.Lock()


def submit(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """The coroutine's result, once the loop has run it; cancelled with the future."""
    return _thread().submit(coroutine)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result, for which this thread waits; an interrupt cancels it.

    Raises RuntimeError inside the loop itself, which would wait for its own work.
    """
    if _runs_here():
        coroutine.close()
        raise RuntimeError("background_loop.run inside the background loop: await the coroutine")
    running = submit(coroutine)
    try:
        return running.result()
    except KeyboardInterrupt:
        running.cancel()
        raise


async def await_(coroutine: Coroutine[Any, Any, T]) -> T:
    """The coroutine's result, awaited in any event loop while it runs in this one."""
    if _runs_here():
        return await coroutine
    return await asyncio.wrap_future(submit(coroutine))


def _runs_here() -> bool:
    return _thread().runs_here


def _thread() -> LoopThread:
    with _STARTING:
        return _started()


@functools.cache
def _started() -> LoopThread:
    return LoopThread("requests over a network")
