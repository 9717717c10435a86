"""Supervisor of model servers: starts them, watches them and starts again those that died."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack

from srl_agents.errors import BackendError, ServingError
from srl_agents.serving.process import loopback
from srl_agents.serving.server import Server

LOOK = 0.5
"""Seconds between two looks at a server that is up."""
HANGS_AFTER = 60.0
"""Seconds without an answer after which a server that runs is taken for dead."""
LONGEST_WAIT = 60.0
"""Seconds before a restart, at most."""

log = logging.getLogger(__name__)


class Supervisor:
    """Keeps servers up; all of it runs in the event loop that it was started in.

    A server that died is started again after `first_wait` seconds, and after twice as long each
    time that it did not come up.
    """

    def __init__(
        self,
        servers: Sequence[Server],
        *,
        on_up: Callable[[Server], Awaitable[None]],
        on_down: Callable[[Server], None],
        on_lost: Callable[[Server], None],
        max_restarts: int = 10,
        start_timeout: float = 600.0,
        first_wait: float = 1.0,
    ) -> None:
        """`on_up` is awaited whenever a server has become ready, the first time too, before anybody
        may send it requests: it loads what was lost. `on_down` is told when one is no more, and
        `on_lost` when it is not started again either."""
        self.servers = tuple(servers)
        self.restarts = dict.fromkeys(self.servers, 0)
        """Of each server so far."""
        self._on_up, self._on_down, self._on_lost = on_up, on_down, on_lost
        self._max_restarts, self._start_timeout = max_restarts, start_timeout
        self._first_wait = first_wait
        self._tasks: list[asyncio.Task[None]] = []
        self._starting = {gpu: asyncio.Lock() for server in self.servers for gpu in _gpus(server)}
        """Machine and GPU -> held by the server that starts on it."""

    async def start(self) -> None:
        """Start the servers, wait until they are ready, and watch them from then on.

        They start at once, but for those that share a GPU: each takes a part of the memory that it
        finds free as it starts.

        Raises ServingError, with all of them ended, where one does not become ready.
        """
        try:
            async with asyncio.TaskGroup() as group:
                for server in self.servers:
                    group.create_task(self._bring_up(server))
        except BaseExceptionGroup as failed:
            await self.stop()
            raise failed.exceptions[0] from None
        except asyncio.CancelledError:
            await self.stop()
            raise
        self._tasks = [asyncio.create_task(self._keep_up(server)) for server in self.servers]

    async def stop(self, drain: float = 0.0) -> None:
        """End all servers at once; each has `drain` seconds to finish the answers under way."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks = []
        await asyncio.gather(*(server.stop(drain) for server in self.servers))

    def check(self) -> None:
        """Raise ServingError where a server died more often than it may be started again."""
        for task in self._tasks:
            if task.done():
                task.result()

    async def _bring_up(self, server: Server) -> None:
        async with AsyncExitStack() as alone:
            for gpu in sorted(_gpus(server)):  # in one order, so that no two wait for each other
                await alone.enter_async_context(self._starting[gpu])
            await _in_thread(server.start)
            await server.wait_ready(self._start_timeout)
        await self._on_up(server)

    async def _keep_up(self, server: Server) -> None:
        while True:
            await _until_down(server)
            self._on_down(server)
            why = await asyncio.to_thread(server.cause_of_death)
            cause: str | None = f"{server.name} died: {why}"
            wait = self._first_wait
            while cause:
                cause = await self._restart(server, wait, cause)
                wait = min(2 * wait, LONGEST_WAIT)

    async def _restart(self, server: Server, wait: float, cause: str) -> str | None:
        """Start it again; returns why it did not come up, or None."""
        if self.restarts[server] >= self._max_restarts:
            self._on_lost(server)
            raise ServingError(
                f"{self._max_restarts} restarts are allowed and were not enough: {cause}"
            )
        self.restarts[server] += 1
        log.warning("restart %d in %g s: %s", self.restarts[server], wait, cause)
        await _in_thread(server.kill)
        await asyncio.sleep(wait)
        try:
            await self._bring_up(server)
        except (ServingError, BackendError, OSError) as error:
            return f"{server.name} did not come up again: {error}"
        log.warning("%s is up again", server.name)
        return None


def _gpus(server: Server) -> list[tuple[str, int]]:
    return [(server.spec.host, gpu) for gpu in server.spec.gpus]


async def _in_thread(function: Callable[[], None]) -> None:
    """Do what blocks; a cancellation waits for its end, so that nothing starts after all ended."""
    running = asyncio.ensure_future(asyncio.to_thread(function))
    try:
        await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait([running])
        raise


async def _until_down(server: Server) -> None:
    """Wait until the process is gone, says that its engine is dead, or answers no more."""
    heard = time.monotonic()
    while await server.runs() and time.monotonic() - heard < HANGS_AFTER:
        with contextlib.suppress(OSError):
            if not await loopback.healthy(server.url, HANGS_AFTER, server.spec.key):
                return
            heard = time.monotonic()
        await asyncio.sleep(LOOK)
