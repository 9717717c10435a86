"""Event loop in a background thread, in which all network requests run.

The HTTP client of an SDK works in a single event loop, whereas episodes run in several.
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
_started = functools.cache(lambda: LoopThread("network requests"))


def _thread() -> LoopThread:
    with _STARTING:
        return _started()


def submit(coroutine: Coroutine[Any, Any, T]) -> Future[T]:
    """Schedule a coroutine in the background loop, started at first use; return its future."""
    return _thread().submit(coroutine)


def run(coroutine: Coroutine[Any, Any, T]) -> T:
    """Block until a coroutine has run in the background loop; return its result or raise its error.

    The caller must be in another thread. Ctrl-C cancels the coroutine.
    """
    future = submit(coroutine)
    try:
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        raise


async def await_(coroutine: Coroutine[Any, Any, T]) -> T:
    """Await a coroutine, which runs in the background loop, from any event loop."""
    return await asyncio.wrap_future(submit(coroutine))
