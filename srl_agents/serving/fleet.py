"""Fleet: the model servers of a run, started here or attached to, behind one scheduler."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from srl_agents.errors import BackendError, ServerUnavailable, ServingError
from srl_agents.llm.backends import background_loop
from srl_agents.llm.sampling import Sampling
from srl_agents.serving.command import ServerSpec
from srl_agents.serving.endpoint import Endpoint
from srl_agents.serving.scheduler import Scheduler
from srl_agents.serving.server import ModelServer, Server
from srl_agents.serving.supervisor import Supervisor

LOOK = 1.0
"""Seconds between two looks at an attached server."""
TRUE_ANSWER = (1, 2)
"""Tokens that every vocabulary has, as the only answer that is allowed."""
CERTAIN = 1e-3
"""Of a log-probability that should be 0."""
OnUp = Callable[[str, Endpoint], Awaitable[None]]

log = logging.getLogger(__name__)


class Fleet:
    """Servers that take requests from `scheduler`, each for the base that it serves.

    A server that died takes none until it is up again and `on_up`'s functions have loaded what it
    lost. All of it runs in the process's background loop.
    """

    def __init__(
        self,
        *,
        concurrency: int,
        deadline: float,
        sharing: Literal["fair", "priority"] = "fair",
    ) -> None:
        """Without servers: see `managed` and `attached`."""
        self.scheduler: Scheduler[Endpoint] = Scheduler(sharing=sharing, max_wait=deadline)
        self._concurrency, self._deadline = concurrency, deadline
        self._bases: dict[Endpoint, str] = {}
        self._up: set[Endpoint] = set()
        self._on_up: list[OnUp] = []
        self._servers: dict[Server, Endpoint] = {}
        self._supervisor: Supervisor | None = None
        self._watchers: list[asyncio.Task[None]] = []

    @classmethod
    def managed(
        cls,
        specs: Sequence[ServerSpec],
        *,
        run_by: Callable[[ServerSpec], Server] = ModelServer,
        concurrency: int,
        deadline: float,
        max_restarts: int = 10,
        start_timeout: float = 600.0,
        sharing: Literal["fair", "priority"] = "fair",
    ) -> Fleet:
        """Start these servers, all at once, and wait until they are ready.

        `run_by` makes what runs one. Where a server has a gate, its guests are let in whenever it
        is up and `on_up`'s functions have loaded what it lost.
        `concurrency` calls are under way at each server at most; a request waits for `deadline`
        seconds at most, restarts included; `sharing` is the scheduler's. Raises ServingError, with
        all of them ended, where one does not come up.
        """
        fleet = cls(concurrency=concurrency, deadline=deadline, sharing=sharing)
        for spec in specs:
            server = run_by(spec)
            fleet._servers[server] = fleet._endpoint(spec.url, spec.served_name, spec.key)
        fleet._supervisor = Supervisor(
            list(fleet._servers),
            on_up=fleet._bring_in,
            on_down=lambda server: fleet._leave_out(fleet._servers[server]),
            on_lost=lambda server: fleet.scheduler.remove(fleet._servers[server]),
            max_restarts=max_restarts,
            start_timeout=start_timeout,
        )
        return fleet._opened(fleet._supervisor.start())

    @classmethod
    def attached(
        cls,
        urls: Mapping[str, Iterable[str]],
        *,
        concurrency: int,
        deadline: float,
        key: str | None = None,
        patience: float = 0.0,
    ) -> Fleet:
        """Take part in servers that run: base, as they call it -> their addresses.

        `key` is the guests' where they have a gate, `patience` the seconds for which one that is
        not there is waited for.
        Raises BackendError for one that does not complete for its base, and ServingError for one
        that was started without what training needs.
        """
        fleet = cls(concurrency=concurrency, deadline=deadline)
        for base, own in urls.items():
            for url in own:
                fleet._endpoint(url, base, key)
        return fleet._opened(fleet._attach(patience))

    def on_up(self, load: OnUp) -> None:
        """Have `load(base, endpoint)` awaited for a server that is up again, before it takes
        requests. An attached server may have been away without having lost anything."""
        self._on_up.append(load)

    def endpoints(self, base: str) -> list[Endpoint]:
        """The servers of a base that take requests now."""
        return [one for one, own in self._bases.items() if own == base and one in self._up]

    async def lay(self, endpoint: Endpoint, folder: Path) -> Path:
        """Where a server finds the files of a folder of this machine."""
        server = self._server_of(endpoint)
        return folder if server is None else await asyncio.to_thread(server.lay, folder)

    async def clear(self, endpoint: Endpoint, folder: Path) -> None:
        """Remove what was laid for that folder."""
        server = self._server_of(endpoint)
        if server is not None:
            await asyncio.to_thread(server.clear, folder)

    def check(self) -> None:
        """Raise ServingError where a server died more often than it may be started again."""
        if self._supervisor is not None:
            self._supervisor.check()

    @property
    def urls(self) -> list[str]:
        """Addresses of all servers, in the order that they were given in."""
        return [endpoint.url for endpoint in self._bases]

    def close(self, drain: float = 0.0) -> None:
        """End the servers that were started here, which have `drain` seconds for the answers under
        way, and close all connections."""
        background_loop.run(self._close(drain))

    def __enter__(self) -> Fleet:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def _opened(self, opening: Coroutine[Any, Any, None]) -> Fleet:
        try:
            background_loop.run(opening)
        except BaseException:
            self.close()
            raise
        return self

    def _server_of(self, endpoint: Endpoint) -> Server | None:
        """What was started here; None where it was attached to."""
        return next((server for server, own in self._servers.items() if own is endpoint), None)

    def _endpoint(self, url: str, base: str, key: str | None) -> Endpoint:
        endpoint = Endpoint(url, deadline=self._deadline, api_key=key)
        self._bases[endpoint] = base
        return endpoint

    async def _bring_in(self, server: Server) -> None:
        """Let a server that was started take requests, its guests' too."""
        await self._take_in(self._servers[server])
        if server.spec.keys is not None:
            await self._servers[server].open()

    async def _take_in(self, endpoint: Endpoint) -> None:
        """Let a server that is up take requests, from the very moment that it has loaded all."""
        base = self._bases[endpoint]
        known = endpoint.name in self.scheduler.stats().servers
        if not known:
            await _check_settings(endpoint, base)
        for load in self._on_up:
            await load(base, endpoint)
        self._up.add(endpoint)
        if known:
            self.scheduler.mark_up(endpoint)
        else:
            self.scheduler.add(endpoint, base=base, capacity=self._concurrency)

    def _leave_out(self, endpoint: Endpoint) -> None:
        self._up.discard(endpoint)
        self.scheduler.mark_down(endpoint)

    async def _attach(self, patience: float) -> None:
        await asyncio.gather(*(self._take_in_patiently(one, patience) for one in self._bases))
        self._watchers = [asyncio.create_task(self._watch(one)) for one in self._bases]

    async def _take_in_patiently(self, endpoint: Endpoint, patience: float) -> None:
        latest = time.monotonic() + patience
        while True:
            try:
                return await self._take_in(endpoint)
            except ServerUnavailable:
                if time.monotonic() > latest:
                    raise
            await asyncio.sleep(LOOK)

    async def _watch(self, endpoint: Endpoint) -> None:
        """Leave an attached server out as soon as it was unavailable, until it is there again."""
        while True:
            await asyncio.sleep(LOOK)
            if self.scheduler.stats().servers[endpoint.name].up:
                continue
            if endpoint in self._up:
                log.warning("%s is not there; it takes no requests until it is", endpoint.name)
                self._leave_out(endpoint)
            try:
                await endpoint.check_ready(self._bases[endpoint])
                await self._take_in(endpoint)
            except BackendError as error:
                log.info("%s is not back: %s", endpoint.name, error)
            else:
                log.warning("%s is there again", endpoint.name)

    async def _close(self, drain: float) -> None:
        for watcher in self._watchers:
            watcher.cancel()
        await asyncio.gather(*self._watchers, return_exceptions=True)
        if self._supervisor is not None:
            await self._supervisor.stop(drain)
        for endpoint in self._bases:
            await endpoint.close()


async def _check_settings(endpoint: Endpoint, base: str) -> None:
    """Have the server write the one answer that is allowed, which is certain.

    Raises ServingError where it writes another one, for want of the plugin, or calls it uncertain,
    because its log-probabilities are those before masks and temperature.
    """
    [sampled] = await endpoint.complete(
        base,
        [[0]],
        sampling=Sampling(temperature=0.5, max_new_tokens=len(TRUE_ANSWER)),
        max_tokens=len(TRUE_ANSWER),
        stop_ids=(),
        answers=(TRUE_ANSWER,),
    )
    if sampled.ids != TRUE_ANSWER:
        raise ServingError(
            f"{endpoint.name} does not keep to the answers that are allowed: start it with "
            "--logits-processors answer_trie:AnswerTrie, as docs/agents/serving.md says"
        )
    if any(abs(logprob) > CERTAIN for logprob in sampled.logprobs):
        raise ServingError(
            f"{endpoint.name} gives log-probabilities of another distribution than it samples "
            "from: start it with --logprobs-mode processed_logprobs"
        )
