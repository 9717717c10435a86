"""Threads for the work of environments, shared fairly between clients."""

from __future__ import annotations

import asyncio
import threading
from collections import defaultdict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import SimpleQueue

from srl_envs.remote.server.refusals import Refused
from srl_envs.remote.server.work import Pieces


class Hung(Exception):
    """A piece of work took longer than it may."""


class Threads:
    """At most `count` pieces of work at once, each in a thread, and at most `share` of one client.

    Further work of a client waits in a queue of this client. The common queue is therefore short,
    and the work of one client does not delay another's by more than a few pieces.
    Python cannot end a thread: one whose work hangs is left behind, and another takes its place.
    With `most_hung` left behind, no more work is taken.
    """

    def __init__(self, count: int, most_hung: int, share: int) -> None:
        self._free = asyncio.Semaphore(count)
        self._shares = defaultdict[str, asyncio.Semaphore](partial(asyncio.Semaphore, share))
        self._most_hung = most_hung
        self._jobs: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._threads = self._idle = 0
        self.hung = 0

    async def run(self, work: Pieces, seconds: float, client: str) -> None:
        """Do the work, however long it takes, as long as every piece is done within `seconds`.

        The empty client is the server itself, whose work is never refused.

        Raises Hung for one that is not, Refused where too many hang, and what the work raises.
        """
        async with self._shares[client], self._free:
            if client and self.hung >= self._most_hung:
                raise Refused("RESOURCE_EXHAUSTED", "hung", f"{self.hung} environments hang")
            finished = self._begin(work)
            before = -1
            while not finished.done():
                if (done := len(work.results)) == before:
                    self.hung += 1
                    finished.add_done_callback(self._came_back)
                    raise Hung
                before = done
                await asyncio.wait([finished], timeout=seconds)
            return finished.result()

    def close(self) -> None:
        """End the threads that are idle; those at work end after it, or with the process."""
        for _ in range(self._threads):
            self._jobs.put(None)

    def _begin(self, work: Pieces) -> asyncio.Future[None]:
        loop = asyncio.get_running_loop()
        finished: asyncio.Future[None] = loop.create_future()

        def tell(error: BaseException | None) -> None:
            self._idle += 1
            if error is None:
                finished.set_result(None)
            else:
                finished.set_exception(error)

        def job() -> None:
            failed: BaseException | None = None
            try:
                work()
            except BaseException as error:
                failed = error
                if not isinstance(error, Exception):
                    raise
            finally:
                with suppress(RuntimeError):  # the loop is closed: nobody waits any more
                    loop.call_soon_threadsafe(tell, failed)

        if self._idle:
            self._idle -= 1
        else:
            self._threads += 1
            name = f"environment-{self._threads}"
            # A daemon: work that hangs must not keep the process from ending.
            threading.Thread(target=_obey, args=(self._jobs,), name=name, daemon=True).start()
        self._jobs.put(job)
        return finished

    def _came_back(self, finished: asyncio.Future[None]) -> None:
        self.hung -= 1
        finished.exception()  # is looked at: nobody else will


def _obey(jobs: SimpleQueue[Callable[[], None] | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
