"""Threads in which environments are made, stepped and closed, shared fairly between clients."""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

from srl_envs.errors import EnvError
from srl_extensions.remote.errors import Refused, WireError

logger = logging.getLogger(__name__)


class Workers:
    """At most `threads` threads at once, and at most `share` of them for one client.

    Additional work of a client waits in a queue per client, so no client delays another one's work
    by more than a few calls. Python cannot end a thread: the thread of a call that takes longer
    than `seconds` is abandoned and replaced. With `most_hung` of them, further work is refused.
    """

    def __init__(self, threads: int, share: int, seconds: float, most_hung: int) -> None:
        self._free = asyncio.Semaphore(threads)
        self._shares = defaultdict[str, asyncio.Semaphore](partial(asyncio.Semaphore, share))
        self._seconds = seconds
        self._most_hung = most_hung
        self.hung = 0

    async def run(
        self, client: str, calls: Sequence[Callable[[], Any]], stop: threading.Event
    ) -> list[Any]:
        """Make the calls in order in one thread, and return for each its result or a Refused.

        No call begins after `stop`. The server's own work has no client and is not refused.
        """
        async with self._shares[client], self._free:
            if client and self.hung >= self._most_hung:
                raise Refused("RESOURCE_EXHAUSTED", "hung", f"{self.hung} environments hang")
            results: list[Any] = []
            finished = _start(calls, stop, results)
            done = -1
            while not finished.done() and len(results) > done:
                done = len(results)
                await asyncio.wait([finished], timeout=self._seconds)
            missing = Refused("CANCELLED", "cancelled", "the call ended before its work")
            if not finished.done():
                self.hung += 1
                finished.add_done_callback(self._returned)
                stop.set()
                results = results.copy()  # without the result of the current call
                message = f"the environment took longer than {self._seconds:g} s, and was given up"
                results.append(Refused("DEADLINE_EXCEEDED", "slow", message))
                aborted = "another session of the call hung: send the call again"
                missing = Refused("ABORTED", "not played", aborted)
            return results + [missing] * (len(calls) - len(results))

    def _returned(self, _: asyncio.Future[None]) -> None:
        self.hung -= 1


def _start(
    calls: Sequence[Callable[[], Any]], stop: threading.Event, results: list[Any]
) -> asyncio.Future[None]:
    loop = asyncio.get_running_loop()
    finished: asyncio.Future[None] = loop.create_future()

    def work() -> None:
        for call in calls:
            if stop.is_set():
                break
            try:
                result = _attempt(call)
            except Refused as refused:
                # Tracebacks would keep the environment and its records in memory.
                refused.__cause__ = refused.__context__ = None
                result = refused.with_traceback(None)
            results.append(result)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(finished.set_result, None)

    # A daemon: a call that hangs must not keep the process from ending.
    threading.Thread(target=work, name="environment", daemon=True).start()
    return finished


def _attempt(call: Callable[[], Any]) -> Any:
    """Return the result of a call. Raises Refused for every exception of the call."""
    try:
        return call()
    except Refused:
        raise
    except WireError as error:
        raise Refused("INVALID_ARGUMENT", "malformed", error) from error
    except EnvError as error:
        raise Refused("INVALID_ARGUMENT", "wrong use", error) from error
    except BaseException as error:  # also SystemExit: signals reach the main thread only
        logger.exception("an environment failed")
        # The error's own __str__ and __repr__ may fail too; `traceback` handles this.
        text = "".join(traceback.format_exception_only(error)).rstrip()
        raise Refused("INTERNAL", "failed", f"the environment failed: {text}") from error
