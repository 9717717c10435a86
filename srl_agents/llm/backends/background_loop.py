"""Event loop in a background thread, in which all network requests run.

A client of an SDK belongs to the event loop of its connections, and episodes run in many loops.
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
_started = functools.cache(lambda: LoopThread("requests over a network"))


def _thread() -> LoopThread:
    with _STARTING:
        return _started()


def submit(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Schedule a coroutine and return its future."""
    return _thread().submit(coroutine)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine and return its result; raise RuntimeError inside the background loop."""
    if _thread().runs_here:
        coroutine.close()
        raise RuntimeError("background_loop.run inside the background loop: await the coroutine")
    running = submit(coroutine)
    try:
        return running.result()
    except KeyboardInterrupt:
        running.cancel()
        raise


async def await_(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine from any event loop while the coroutine runs in this one."""
    if _thread().runs_here:
        return await coroutine
    return await asyncio.wrap_future(submit(coroutine))
