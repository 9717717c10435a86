"""Fleet: the model servers of a run, started or attached to, behind one router per base."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass

from srl_agents.errors import BackendError, ServingError
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.network import RejectedError
from srl_extensions.vllm.client import VLLMClient
from srl_extensions.vllm.routing import MAX_WAIT, Router
from srl_extensions.vllm.server import ModelServer, ServerSpec

CONCURRENCY = 64
"""Open calls of each server, of up to 64 prompts each."""
MAX_RESTARTS = 10
"""Restarts of each server; one more failure ends the run."""
START_TIMEOUT = 600.0
"""Seconds until a server that was started is ready."""
LOOK = 0.5
"""Seconds between two checks of a server."""
HANGS_AFTER = 60.0
"""Seconds without a reply after which a running server counts as dead."""
RESTART_WAIT = 5.0
"""Seconds before a restart."""
OnUp = Callable[[str, VLLMClient], Awaitable[None]]

log = logging.getLogger(__name__)


@dataclass(eq=False)
class Member:
    """One server of a fleet."""

    client: VLLMClient
    base: str
    """Served name of the base."""
    server: ModelServer | None = None
    """Process of the server; None for a server that the fleet is attached to."""
    up: bool = False
    """True if requests are sent to the server."""
    restarts: int = 0


class Fleet:
    """Servers that receive the requests of `routers` (served base -> router).

    A server that fails receives no requests until it is up again, and the functions of `on_up` have
    loaded the weights that it lost.
    """

    def __init__(
        self,
        members: Sequence[Member],
        concurrency: int = CONCURRENCY,
        restarts: int = MAX_RESTARTS,
    ) -> None:
        """Start or check all members, wait until they are ready, and watch them.

        `concurrency` limits the open calls of each server. If a member fails, the started ones are
        ended and its error is raised.
        """
        self.members = members
        self.routers: dict[str, Router[VLLMClient]] = {
            member.base: Router(MAX_WAIT) for member in members
        }
        """Base -> router of its servers."""
        self._concurrency, self._restarts = concurrency, restarts
        self._on_up: list[OnUp] = []
        self._tasks: list[asyncio.Task[None]] = []
        self._starting = defaultdict[tuple[int, ...], asyncio.Lock](asyncio.Lock)
        """GPUs -> lock of the server that starts there."""
        try:
            background_loop.run(self._open())
        except BaseException as error:
            self.close()
            if isinstance(error, BaseExceptionGroup):
                raise error.exceptions[0] from None
            raise

    @classmethod
    def managed(cls, specs: Sequence[ServerSpec], *, restarts: int = MAX_RESTARTS) -> Fleet:
        """Start servers, wait until all are ready, and return their fleet.

        After more than `restarts` failures of a server, requests to its base fail and `check`
        raises. Raises ServingError if a server does not become ready; all are ended then.
        """
        members = [
            Member(VLLMClient(spec.url, deadline=MAX_WAIT), spec.served_name, ModelServer(spec))
            for spec in specs
        ]
        return cls(members, restarts=restarts)

    @classmethod
    def attached(
        cls,
        urls: Mapping[str, Iterable[str]],
        *,
        concurrency: int = CONCURRENCY,
        restarts: int = MAX_RESTARTS,
    ) -> Fleet:
        """Return a fleet of running servers; `urls` is served name of a base -> addresses.

        A server that fails is used again once it answers, any number of times. If `restarts` is 0,
        requests to its base fail after its first failure instead, and `check` raises ServingError.
        Raises BackendError if a server completes no token.
        """
        members = [
            Member(VLLMClient(url, deadline=MAX_WAIT), base)
            for base, of_base in urls.items()
            for url in of_base
        ]
        return cls(members, concurrency, restarts)

    def on_up(self, load: OnUp) -> None:
        """Register `load(base, client)`, awaited each time before a server is used again."""
        self._on_up.append(load)

    def clients(self, base: str) -> list[VLLMClient]:
        """Return the clients of the servers of a base that currently receive requests."""
        return [member.client for member in self.members if member.base == base and member.up]

    def check(self) -> None:
        """Raise ServingError if a server failed more often than `restarts` allow."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()

    def close(self) -> None:
        """End the servers that were started, and wait; waiting and later requests fail."""
        background_loop.run(self._close())

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    async def _open(self) -> None:
        async with asyncio.TaskGroup() as group:
            for member in self.members:
                group.create_task(self._bring_up(member))
        self._tasks = [asyncio.create_task(self._keep_up(member)) for member in self.members]

    async def _keep_up(self, member: Member) -> None:
        """Watch a server, and restart or await it while it is down; ServingError if impossible."""
        router, server, name = self.routers[member.base], member.server, member.client.name
        while True:
            await self._until_down(member)
            member.up = False
            router.remove(member.client)
            cause = f"{name} does not answer"
            if server is not None:
                cause = f"{name} died: {server.cause_of_death()}"
            log.warning("%s", cause)
            while not member.up:
                if member.restarts >= self._restarts:
                    router.close()
                    raise ServingError(
                        f"{self._restarts} restarts are allowed and were not enough: {cause}"
                    )
                try:
                    if server is None:
                        await asyncio.sleep(LOOK)
                    else:
                        member.restarts += 1
                        await asyncio.to_thread(server.kill)
                        await asyncio.sleep(RESTART_WAIT)
                    await self._bring_up(member)
                except (ServingError, BackendError, OSError) as error:
                    cause = f"{name} did not come up again: {error}"
                    log.info("%s", cause)
            log.warning("%s is up again", name)

    async def _until_down(self, member: Member) -> None:
        """Wait until a server ends, hangs or is unhealthy, or an attached one fails a request."""
        client, server = member.client, member.server
        heard = time.monotonic()
        while time.monotonic() - heard < HANGS_AFTER:
            if server is None:
                running = self.routers[member.base].servers[client.name].up
            else:
                running = server.alive()
            healthy = running and await client.is_healthy(HANGS_AFTER)
            if healthy:
                heard = time.monotonic()
            elif healthy is False or server is None:
                return
            await asyncio.sleep(LOOK)

    async def _bring_up(self, member: Member) -> None:
        client, server = member.client, member.server
        if server is None:
            await client.check_ready(member.base)
        else:
            gpus = server.spec.gpus
            # A server measures the free memory of its GPUs as it starts, so servers on the same
            # GPUs start one after another.
            async with self._starting[gpus] if gpus else nullcontext():
                server.start()
                await wait_ready(server, client, START_TIMEOUT)
        for load in self._on_up:
            await load(member.base, client)
        member.up = True
        self.routers[member.base].add(client, capacity=self._concurrency)

    async def _close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        for router in self.routers.values():
            router.close()
        servers = [member.server for member in self.members if member.server is not None]
        await asyncio.gather(*(asyncio.to_thread(server.stop) for server in servers))
        for member in self.members:
            await member.client.close()


async def wait_ready(server: ModelServer, client: VLLMClient, timeout: float) -> None:
    """Wait until a started server completes a token, for at most `timeout` seconds.

    Raises ServingError if the server ends, refuses the request or is not ready in time.
    """
    name, end = server.spec.name, time.monotonic() + timeout
    while (left := end - time.monotonic()) > 0:
        try:
            return await client.check_ready(server.spec.served_name, left)
        except RejectedError as error:
            raise ServingError(f"{name} completes no token: {error}") from error
        except BackendError as error:  # The server does not listen yet, or its engine just died.
            log.debug("%s is not ready: %s", name, error)
        if not server.alive():
            raise ServingError(f"{name} ended as it started: {server.cause_of_death()}")
        await asyncio.sleep(min(LOOK, 0.25))
    raise ServingError(f"{name} was not ready after {timeout:g} s: {server.cause_of_death()}")
