"""Models of a run on Ray that sample in vLLM servers: servers in places of their own, which players
ask, and to which the driver publishes what learners write."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from srl_agents.episode import ModelVersion
from srl_agents.errors import ServingError
from srl_agents.llm.backends.registry import is_api_name
from srl_extensions.vllm.command import ServerSpec
from srl_extensions.vllm.config import VLLMBackendConfig
from srl_extensions.vllm.fleet import CONCURRENCY, Fleet
from srl_extensions.vllm.models import (
    TokenFacts,
    base_of,
    folder_for_weights,
    publisher_of,
    servable,
    served_bases,
    shapes_of,
)
from srl_extensions.vllm.publisher import ServedPublisher
from srl_train.config.engine import RayEngineConfig
from srl_train.config.run import RunConfig
from srl_train.distributed.ray_engine.remote_learner import RemoteLearner
from srl_train.distributed.ray_engine.remote_player import RemotePlayer
from srl_train.distributed.ray_engine.remote_server import RemoteServer
from srl_train.distributed.ray_engine.server import ServerWorker
from srl_train.distributed.ray_engine.server_access import ServerAccess
from srl_train.distributed.ray_engine.standing import Places, StandingWorker


class AnsweringPlayers:
    """All players of a run as those who ask the servers of one base; see Answering.

    They take over what is published between two of the things that they are asked for, so that
    games that were asked for before are played with the version before.
    """

    def __init__(self, base: str, facts: TokenFacts, players: Sequence[RemotePlayer]) -> None:
        """`base` is what servers call it."""
        self.name, self.base, self.stop_ids = facts.name, base, facts.stop_ids
        self._players = players
        self._serving: dict[str, str] = {}
        """Adapter -> its newest served name."""
        self._given_up: dict[str, list[Future[None]]] = {}
        """Served name -> when each player has gone over to another one."""

    def serve(self, adapter: str | None, version: ModelVersion, served_as: str) -> None:
        """See VersionedSampler."""
        name = adapter or self.base
        told = "serve", name, version, served_as
        gone_over = [player.tell(name, *told) for player in self._players]
        if before := self._serving.get(name):
            self._given_up[before] = gone_over
        self._serving[name] = served_as

    async def drained(self, served_as: str) -> None:
        """See VersionedSampler."""
        await _ended(self._given_up.pop(served_as, []))


async def _ended(futures: Sequence[Future[None]]) -> None:
    """Wait until all of them are done, or given up; the players' next games tell what failed."""
    await asyncio.gather(*map(asyncio.wrap_future, futures), return_exceptions=True)


class Serving:
    """The servers of a run, each in a place of its own, watched and published to from here."""

    def __init__(
        self,
        config: RunConfig,
        engine: RayEngineConfig,
        backend: VLLMBackendConfig,
        cluster: Places,
        make_env: Callable[[], Any],
        logs: Path | None,
    ) -> None:
        """Start them all, and wait until they are ready; `logs` as for `serve_models`.

        Raises ConfigError for what is not on a server's node, and ServingError where one does not
        come up.
        """
        assert backend.managed is not None, "the configuration is checked"
        self._config, self._backend, self._players = config, backend, engine.players
        models = config.models
        bases = models.bases
        frozen = {n: one for n, one in models.frozen_models.items() if not is_api_name(one)}
        starts = servable(config, make_env, {**bases, **frozen})
        self._sources = served_bases(config, {name: starts[name] for name in bases})
        self._shapes = shapes_of(config, self._sources, {n: starts[n] for n in frozen})
        self._frozen = frozen
        self._key = secrets.token_urlsafe(32)
        if logs is not None:  # nodes that see it write there
            try:
                logs.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise ServingError(f"no log can be written to {logs} ({error.strerror})") from error
        with ExitStack() as ends:
            self._folder = Path(ends.enter_context(folder_for_weights(None)))
            first = engine.players + models.count * engine.learner_processes
            served = [base for base in self._sources for _ in range(backend.managed.replicas)]
            workers = [
                StandingWorker(
                    f"the server of {base}",
                    partial(
                        cluster.actor, range(first + number, first + number + 1), ServerWorker,
                        config, engine.server_gpus, make_env, f"published-{secrets.token_hex(8)}",
                    ),
                    lambda worker: None,
                )
                for number, base in enumerate(served)
            ]  # fmt: skip
            for worker in workers:
                ends.callback(worker.close)
            with ThreadPoolExecutor(len(workers)) as at_once:
                list(at_once.map(lambda worker: worker.call("alive"), workers))
            specs: list[ServerSpec] = []
            for number, (base, worker) in enumerate(zip(served, workers, strict=True)):
                host = cluster.host(first + number)
                specs.append(worker.call("specified", base, host, self._key, logs))
            by_url = {spec.url: worker for spec, worker in zip(specs, workers, strict=True)}
            self.fleet = Fleet.managed(
                specs,
                run_by=lambda spec: RemoteServer(spec, by_url[spec.url], cluster.put),
            )
            ends.callback(self.fleet.close)
            self._urls: dict[str, list[str]] = {}
            for spec in specs:
                self._urls.setdefault(spec.served_name, []).append(spec.url)
            self.close = ends.pop_all().close

    def asked(self, learners: Mapping[str, RemoteLearner]) -> ServerAccess:
        """What players are told of the servers, from whoever has loaded the bases."""
        shown = dict(zip(self._sources, learners, strict=False))  # of adapters all are one
        self._facts: dict[str, TokenFacts] = {
            base: learners[model].model.worker.call("token_facts") for base, model in shown.items()
        }
        return ServerAccess(
            self._urls,
            self._facts,
            tuple(self._shapes),
            max(1, CONCURRENCY // self._players),
            self._key,
        )

    def publisher(
        self, players: Sequence[RemotePlayer], learners: Mapping[str, RemoteLearner]
    ) -> ServedPublisher:
        """Brings what learners write to the servers, and tells players of it."""
        config = self._config
        told = {b: AnsweringPlayers(b, own, players) for b, own in self._facts.items()}
        first = learners[config.models.names[0]]

        def write(name: str, weights: Mapping[str, Tensor], probes: Any, folder: Path) -> Tensor:
            model = learners[self._shapes[name]].model
            asked = "publication", model.put(dict(weights)), probes
            files, expected = model.worker.call(*asked)
            for file, content in files.items():
                (folder / file).write_bytes(content)
            own: Tensor = expected
            return own

        samplers = {name: told[base_of(config, name)] for name in self._shapes}
        probe = first.model.worker.call("probe")
        publisher = publisher_of(
            config, self._backend, samplers, self.fleet, probe, write, self._folder
        )
        zeros = {n: torch.zeros_like(own) for n, own in first.weights().items()}
        for name in self._shapes.keys() & self._frozen.keys():
            publisher.publish(name, 0, zeros)
        return publisher
