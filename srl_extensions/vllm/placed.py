"""vLLM servers on the nodes of a cluster: one worker per server, managed from the driver.

The engine of a cluster starts the workers and passes functions that call them, so this module
depends on no cluster software.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
from torch import Tensor

from srl_agents.errors import PlacementError
from srl_extensions.vllm import launcher
from srl_extensions.vllm.command import ServerSpec
from srl_extensions.vllm.config import VLLMBackendConfig
from srl_extensions.vllm.fleet import CONCURRENCY, START_TIMEOUT, Fleet
from srl_extensions.vllm.models import (
    Apply,
    ServedModels,
    TokenFacts,
    backends_of,
    check_python,
    servable,
    served_bases,
    server_specs,
)
from srl_extensions.vllm.placement import find_gpus
from srl_extensions.vllm.publisher import ServedPublisher, VersionedSampler
from srl_extensions.vllm.server import ModelServer, wait_until_free
from srl_train.config.run import RunConfig
from srl_train.errors import TrainingError
from srl_train.loading import Samplers
from srl_train.publisher import WeightPublisher

Caller = Callable[..., Any]
"""Function (method, *arguments) that calls a method of a worker, which may be restarted."""
LEFT_BEHIND = launcher.GRACE + 5.0
"""Seconds in which the launcher ends the server of a killed worker."""


class PlacedServers(ServedModels):
    """Servers of a run on a cluster, with `gpus` GPUs each: workers, fleet and publisher.

    `logs` is the folder of the servers' logs, on the nodes that have this folder.
    """

    servable = staticmethod(servable)
    """Function from (make_env, bases) to the folders and hub names that learners load."""

    def __init__(
        self, config: RunConfig, make_env: Callable[[], Any], logs: Path | None, *, gpus: float
    ) -> None:
        super().__init__(config, make_env)
        assert isinstance(config.backend, VLLMBackendConfig) and config.backend.managed is not None
        self._make_env, self._logs, self._gpus = make_env, logs, gpus
        self._bases = [b for b in self.sources for _ in range(config.backend.managed.replicas)]
        self.count = len(self._bases)
        """Number of servers."""
        if logs is not None:
            with suppress(OSError):  # Nodes without this folder write to their caches.
                logs.mkdir(parents=True, exist_ok=True)

    def worker(self, number: int) -> tuple[Any, ...]:
        """Return the constructor of a server's worker and its arguments."""
        return ServerWorker, self.config, self._make_env, self._gpus, self._bases[number]

    def start(self, workers: Sequence[Caller], hosts: Sequence[str]) -> None:
        """Start a server in each worker, at the address of its host, and wait until all are ready.

        Raises ConfigError if an interpreter is missing, and ServingError if a server fails.
        """
        with ThreadPoolExecutor(len(workers)) as threads:
            list(threads.map(lambda worker: worker("alive"), workers))
        self._key = secrets.token_urlsafe(32)
        # The calls follow one another, because each worker draws a free port.
        specs: list[ServerSpec] = [
            worker("spec", host, self._key, self._logs)
            for worker, host in zip(workers, hosts, strict=True)
        ]
        by_url = {spec.url: worker for spec, worker in zip(specs, workers, strict=True)}
        self._fleet = Fleet.managed(specs, run_by=lambda spec: PlacedServer(spec, by_url[spec.url]))
        self.ends.callback(self._fleet.close)
        self.check = self._fleet.check

    def access(self, learners: Mapping[str, Apply], players: int) -> ServerAccess:
        """Return the connection details for `players` processes that sample in the servers."""
        self.connect(self._fleet, learners)
        urls: dict[str, list[str]] = {}
        for base, url in zip(self._bases, self._fleet.urls, strict=True):
            urls.setdefault(base, []).append(url)
        concurrency = max(1, CONCURRENCY // players)
        return ServerAccess(urls, self.facts, self.served, concurrency, self._key)

    def publisher(self, sampler: Callable[..., VersionedSampler]) -> ServedPublisher:
        """Return the publisher; `sampler` receives the name, served name and stop ids of a base."""
        bases = {b: sampler(facts.name, b, facts.stop_ids) for b, facts in self.facts.items()}
        return self.open_publisher({name: bases[base] for name, base in self.served.items()})

    def close(self) -> None:
        """End the servers and remove the published files."""
        self.ends.close()


@dataclass(frozen=True)
class ServerAccess:
    """Connection details of servers that another process manages."""

    urls: Mapping[str, Sequence[str]]
    """Served base -> addresses of its servers."""
    facts: Mapping[str, TokenFacts]
    """Served base -> its properties."""
    served: Mapping[str, str]
    """Model, opponent pool or frozen model that samples there -> its served base."""
    concurrency: int
    """Limit on the open requests of each server."""
    key: str = field(repr=False)

    def attach(self, config: RunConfig) -> Samplers:
        """Return samplers that load no model. Raises BackendError if a server does not answer."""
        fleet = Fleet.attached(
            self.urls, concurrency=self.concurrency, key=self.key, patience=START_TIMEOUT
        )
        backends = backends_of(config, fleet, self.facts, self.served)
        return Samplers({}, backends, PublishedElsewhere(), fleet.close)


class PublishedElsewhere(WeightPublisher):
    """Publisher that always raises, for a process whose servers another process manages."""

    def publish(self, name: str, version: int | str, tensors: Mapping[str, Tensor]) -> None:
        """Raise TrainingError: this process has no learner."""
        raise TrainingError(f"{name} can be published only by the process that runs its servers")


class ServerWorker:
    """Process on a node that runs one server of a base on its `gpus`, and sees no other GPUs.

    Raises ConfigError if the interpreter of the servers is missing.
    """

    def __init__(
        self, config: RunConfig, make_env: Callable[[], Any], gpus: float, base: str
    ) -> None:
        assert isinstance(config.backend, VLLMBackendConfig) and config.backend.managed is not None
        self._config, self._make_env, self._gpus, self._base = config, make_env, gpus, base
        self._managed = config.backend.managed
        check_python(self._managed)
        self._server: ModelServer | None = None

    def spec(self, host: str, key: str, logs: Path | None) -> ServerSpec:
        """Return the settings of the server, on all GPUs of this process, at a free port of `host`.

        The log is written to `logs` if this node has that folder, else to the cache folder. Raises
        PlacementError if there are too few GPUs, and BackendError if the base cannot be read.
        """
        gpus = find_gpus() if self._gpus else []
        if len(gpus) < self._gpus:
            raise PlacementError(
                f"engine.server_gpus must be at most {len(gpus)}, the GPUs that torch finds on "
                f"this node, got {self._gpus:g}: is the driver installed?"
            )
        sources = served_bases(self._config, servable(self._make_env, self._config.models.bases))
        [spec] = server_specs(
            self._config,
            self._managed.replaced(replicas=1, base_port=None),
            {self._base: sources[self._base]},
            logs if logs is not None and logs.is_dir() else None,
            gpus=gpus,
            host=host,
        )
        memory = spec.memory_fraction and spec.memory_fraction * min(1.0, self._gpus)
        indices = tuple(gpu.index for gpu in gpus)
        return replace(spec, key=key, gpus=indices, memory_fraction=memory)

    def start(self, spec: ServerSpec) -> None:
        """Start the server; see `ModelServer.start`.

        Raises TrainingError if this worker was restarted on another node than that of `spec`.
        """
        addresses = [a.address for net in psutil.net_if_addrs().values() for a in net]
        if spec.host not in addresses:
            raise TrainingError(
                f"the node of the model server at {spec.url} was lost: resume the run, which "
                "starts its servers on other nodes"
            )
        if self._server is None:
            wait_until_free(spec, LEFT_BEHIND)
            self._server = ModelServer(spec)
        self._server.start()

    def alive(self) -> bool:
        """Return True if the process of the server runs on this node."""
        return self._server is not None and self._server.alive()

    def end(self, method: str) -> None:
        """End the server, if there is one; `method` is stop or kill."""
        if self._server is not None:
            getattr(self._server, method)()

    def cause_of_death(self) -> str:
        """Return the cause of the server's last failure, from its log."""
        return self._server.cause_of_death() if self._server else "the process that ran it died"


class PlacedServer:
    """Server of a worker, as the driver's fleet manages it, with the methods of ModelServer.

    A restarted worker has no server, so the fleet starts the server again.
    """

    def __init__(self, spec: ServerSpec, worker: Caller) -> None:
        self.spec = spec
        self.alive = partial(worker, "alive")
        self.start = partial(worker, "start", spec)
        self.stop, self.kill = partial(worker, "end", "stop"), partial(worker, "end", "kill")
        self.cause_of_death = partial(worker, "cause_of_death")
