"""vLLM servers in processes on other machines: one worker per server, managed from the driver.

The engine of a cluster starts the workers and passes functions that call them, so this module
depends on no cluster software.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import Tensor

from srl_agents.errors import PlacementError, ServingError
from srl_agents.llm.backends.registry import is_api_name
from srl_extensions.vllm import launcher
from srl_extensions.vllm.command import ServerSpec
from srl_extensions.vllm.config import VLLMBackendConfig
from srl_extensions.vllm.fleet import CONCURRENCY, START_TIMEOUT, Fleet
from srl_extensions.vllm.models import (
    TokenFacts,
    backends_of,
    base_of,
    check_python,
    folder_for_weights,
    probe_of,
    publisher_of,
    servable,
    served_bases,
    server_specs,
    shapes_of,
)
from srl_extensions.vllm.placement import find_gpus
from srl_extensions.vllm.publisher import ServedPublisher, VersionedSampler, write_weights
from srl_extensions.vllm.server import ModelServer, Server, is_free
from srl_train.config.run import RunConfig
from srl_train.errors import TrainingError
from srl_train.loading import Samplers
from srl_train.publisher import WeightPublisher

Caller = Callable[..., Any]
"""Function (method, *arguments) that calls a method of a worker, which may be restarted."""
Apply = Callable[..., Any]
"""Function (function, *arguments) that calls `function(module, backend, make_env, *arguments)` in
the process of a model's learner."""
LEFT_BEHIND = launcher.GRACE + 5.0
"""Seconds in which the server of a killed worker ends."""
POLL = 0.5
"""Seconds between two checks for the end of such a server."""


class PlacedServers:
    """Servers of a run: one worker per server, and the driver's fleet and publisher.

    Args:
        config: Configuration of the run.
        make_env: Constructor of the environment.
        logs: Folder of the servers' logs, on the nodes that have this folder.
        gpus: GPUs of each server; less than 1 for a part of one.

    Raises:
        ConfigError: If weights cannot be written to backend.folder.
    """

    starts = staticmethod(servable)
    """Function from (configuration, make_env, bases) to the bases that learners load."""

    def __init__(
        self, config: RunConfig, make_env: Callable[[], Any], logs: Path | None, *, gpus: float
    ) -> None:
        backend, models = config.backend, config.models
        assert isinstance(backend, VLLMBackendConfig) and backend.managed is not None
        self._config, self._make_env = config, make_env
        self._logs, self._gpus = logs, gpus
        frozen = {n: one for n, one in models.frozen_models.items() if not is_api_name(one)}
        starts = servable(config, make_env, {**models.bases, **frozen})
        self._sources = served_bases(config, {name: starts[name] for name in models.bases})
        self._shapes = shapes_of(config, self._sources, {n: starts[n] for n in frozen})
        self._frozen = self._shapes.keys() & frozen.keys()
        self._served = [base for base in self._sources for _ in range(backend.managed.replicas)]
        self._key = secrets.token_urlsafe(32)
        self._ends = ExitStack()
        self._folder = Path(self._ends.enter_context(folder_for_weights(backend.folder)))
        if logs is not None:
            try:
                logs.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ServingError(f"no log can be written to {logs} ({error.strerror})") from error

    @property
    def count(self) -> int:
        """Number of servers."""
        return len(self._served)

    def worker(self, number: int) -> tuple[Any, ...]:
        """Return the constructor of a server's worker and its arguments."""
        return ServerWorker, self._config, self._make_env, self._gpus, self._served[number]

    def start(self, workers: Sequence[Caller], hosts: Sequence[str]) -> None:
        """Start all servers and wait until they are ready.

        Args:
            workers: Function of each worker that calls its methods.
            hosts: Address of each worker's node.

        Raises:
            ConfigError: If the interpreter is missing on a server's node.
            ServingError: If a server does not become ready.
        """
        with ThreadPoolExecutor(len(workers)) as threads:
            list(threads.map(lambda worker: worker("alive"), workers))
        # One after another, because free ports are drawn.
        specs: list[ServerSpec] = [
            worker("spec", host, self._key, self._logs)
            for worker, host in zip(workers, hosts, strict=True)
        ]
        by_url = {spec.url: worker for spec, worker in zip(specs, workers, strict=True)}
        self._fleet = Fleet.managed(specs, run_by=lambda spec: PlacedServer(spec, by_url[spec.url]))
        self._ends.callback(self._fleet.close)
        self.check = self._fleet.check

    def access(self, learners: Mapping[str, Apply], players: int) -> ServerAccess:
        """Return the connection details for `players` processes that sample in the servers."""
        self._learners = learners
        # Adapters share one base.
        models = dict(zip(self._sources, learners, strict=False))
        found = {base: learners[model](_facts_and_probe) for base, model in models.items()}
        self._facts = {base: facts for base, (facts, _) in found.items()}
        _, self._probe = next(iter(found.values()))
        urls: dict[str, list[str]] = {}
        for base, url in zip(self._served, self._fleet.urls, strict=True):
            urls.setdefault(base, []).append(url)
        concurrency = max(1, CONCURRENCY // players)
        return ServerAccess(urls, self._facts, tuple(self._shapes), concurrency, self._key)

    def publisher(self, sampler: Callable[..., VersionedSampler]) -> ServedPublisher:
        """Return the publisher of the run.

        Args:
            sampler: Constructor of the sampler of a base from (name, served base, stop_ids).
        """
        config, learners = self._config, self._learners
        samplers = {b: sampler(own.name, b, own.stop_ids) for b, own in self._facts.items()}

        def write(name: str, weights: Mapping[str, Tensor], probes: Any, folder: Path) -> Tensor:
            learner = learners[self._shapes[name]]
            expected: Tensor = learner(_write, dict(weights), probes, folder)
            return expected

        publisher = publisher_of(
            config,
            {name: samplers[base_of(config, name)] for name in self._shapes},
            self._fleet,
            self._probe,
            write,
            self._folder,
        )
        if self._frozen:
            zeros = learners[config.models.names[0]](_zeros)
            for name in self._frozen:
                publisher.publish(name, 0, zeros)
        return publisher

    def close(self) -> None:
        """End the servers and remove the published files."""
        self._ends.close()


# Functions that run in the process of a learner; see Apply.


def _facts_and_probe(module: Any, backend: Any, make_env: Any) -> tuple[TokenFacts, list[int]]:
    return TokenFacts.of(backend), probe_of(make_env, backend)


def _zeros(module: Any, backend: Any, make_env: Any) -> dict[str, Tensor]:
    trained = {n: p for n, p in module.named_parameters() if p.requires_grad}
    return {name: torch.zeros(p.shape, dtype=p.dtype) for name, p in trained.items()}


def _write(module: Any, backend: Any, make_env: Any, *arguments: Any) -> Tensor:
    return write_weights(module, *arguments)


@dataclass(frozen=True)
class ServerAccess:
    """Connection details of servers that another process manages."""

    urls: Mapping[str, Sequence[str]]
    """Served base to the addresses of its servers."""
    facts: Mapping[str, TokenFacts]
    """Served base to its properties."""
    names: Sequence[str]
    """Models, pools and frozen models that sample there."""
    concurrency: int
    """Limit on the open requests of each server."""
    key: str = field(repr=False)

    def attach(self, config: RunConfig) -> Samplers:
        """Sample in these servers without loading a model.

        Raises:
            BackendError: If a server does not answer within START_TIMEOUT seconds.
        """
        fleet = Fleet.attached(
            self.urls, concurrency=self.concurrency, key=self.key, patience=START_TIMEOUT
        )
        backends = backends_of(config, fleet, self.facts, self.names)
        return Samplers({}, backends, PublishedElsewhere(), fleet.close)


class PublishedElsewhere(WeightPublisher):
    """Publisher of a process whose servers another process manages."""

    def publish(self, name: str, version: int | str, tensors: Mapping[str, Tensor]) -> None:
        """Raise TrainingError."""
        raise TrainingError(f"{name} can be published by the process only that runs its servers")


class ServerWorker:
    """Runs one server on its node.

    Args:
        config: Configuration of the run.
        make_env: Constructor of the environment.
        gpus: GPUs of this process, which sees no others.
        base: Served base.

    Raises:
        ConfigError: If the interpreter of the servers is missing.
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
        """Return the settings of the server, on all of this process's GPUs.

        The log is written to `logs` if this node has that folder, else to the cache folder.

        Raises:
            PlacementError: If the server does not fit.
            BackendError: If the base cannot be read.
        """
        starts = servable(self._config, self._make_env, self._config.models.bases)
        gpus = find_gpus() if self._gpus else []
        if len(gpus) < self._gpus:
            raise PlacementError(
                f"engine.server_gpus must be at most {len(gpus)}, the GPUs that torch finds on "
                f"this node, got {self._gpus:g}: is the driver installed?"
            )
        [spec] = server_specs(
            self._config,
            self._managed.replaced(replicas=1, base_port=None),
            {self._base: served_bases(self._config, starts)[self._base]},
            logs if logs is not None and logs.is_dir() else None,
            gpus=gpus,
            host=host,
        )
        memory = spec.memory_fraction and spec.memory_fraction * min(1.0, self._gpus)
        indices = tuple(gpu.index for gpu in gpus)
        return replace(spec, key=key, gpus=indices, memory_fraction=memory)

    def start(self, spec: ServerSpec) -> None:
        """Start the server.

        Raises:
            ServingError: As `ModelServer.start`.
            TrainingError: If this worker was restarted on another node.
        """
        addresses = [a.address for own in psutil.net_if_addrs().values() for a in own]
        if spec.host not in addresses:
            raise TrainingError(
                f"the node of the model server at {spec.url} was lost: resume the run, which "
                "places its servers anew"
            )
        if self._server is None:
            # The launcher ends the server of a killed worker after some seconds.
            latest = time.monotonic() + LEFT_BEHIND
            while not is_free(spec.host, spec.port) and time.monotonic() < latest:
                time.sleep(POLL)
            self._server = ModelServer(spec)
        self._server.start()

    def alive(self) -> bool:
        """Return True if the server's process runs."""
        return self._server is not None and self._server.alive

    def stop(self) -> None:
        """End the server."""
        if self._server is not None:
            self._server.stop()

    def kill(self) -> None:
        """End the server at once."""
        if self._server is not None:
            self._server.kill()

    def cause_of_death(self) -> str:
        """Return the cause of the server's end, from its log."""
        return self._server.cause_of_death() if self._server else "the process that ran it died"


class PlacedServer(Server):
    """Server of a worker, as the fleet of the driver manages it.

    A restarted worker has no server, so the fleet starts the server again.
    """

    def __init__(self, spec: ServerSpec, worker: Caller) -> None:
        super().__init__(spec)
        self._worker = worker

    @property
    def alive(self) -> bool:
        """True if the server's process runs."""
        return bool(self._worker("alive"))

    def start(self) -> None:
        """Start the server."""
        self._worker("start", self.spec)

    def stop(self) -> None:
        """End the server."""
        self._worker("stop")

    def kill(self) -> None:
        """End the server at once."""
        self._worker("kill")

    def cause_of_death(self) -> str:
        """Return the cause of the server's end."""
        return str(self._worker("cause_of_death"))
