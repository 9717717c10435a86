"""Models in training that play through vLLM servers: modules, servers, backends, publisher."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar

import torch
from torch import Tensor

from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.vllm import VLLMBackend
from srl_agents.llm.text_policy import turn_of
from srl_agents.policy import AgentObservation
from srl_agents.serving.endpoint import Endpoint
from srl_agents.serving.fleet import Fleet
from srl_agents.serving.scheduler import Scheduler
from srl_agents.serving.server import logs_folder
from srl_train.config.backend import VLLMBackendConfig
from srl_train.config.run import RunConfig
from srl_train.errors import ConfigError, TrainingError
from srl_train.players.learning_models import learning_models
from srl_train.players.publisher import WeightPublisher
from srl_train.players.served.publications import (
    OTHER_TOLERANCE,
    TOLERANCES,
    Answering,
    Publications,
)
from srl_train.players.served.publisher import ServedPublisher, write_weights
from srl_train.players.served.server_specs import (
    BASE,
    check_python,
    servable,
    served_bases,
    server_specs,
)

T = TypeVar("T")
PROBED_TOKENS = 64


@dataclass(frozen=True)
class TokenFacts:
    """What has to be known of a base to ask its servers; a tokenizer and plain data."""

    name: str
    """Shown in records."""
    tokenizer: Any
    positions: int | None
    """The longest context in tokens."""
    vocabulary: int
    """Token ids that the model has."""
    stop_ids: frozenset[int]
    """What ends an answer."""

    @classmethod
    def of(cls, own: HuggingFaceBackend) -> TokenFacts:
        """That of a model that is loaded here."""
        return cls(own.name, own.tokenizer, own.positions, own.vocabulary, own.chat.stop_ids)

    def asking(self, scheduler: Scheduler[Endpoint], base: str, **settings: Any) -> VLLMBackend:
        """What asks the servers that have it as `base`; further `settings` are VLLMBackend's."""
        return VLLMBackend(
            scheduler,
            self.tokenizer,
            base=base,
            name=self.name,
            positions=self.positions,
            vocabulary=self.vocabulary,
            stop_ids=self.stop_ids,
            **settings,
        )


@dataclass(frozen=True)
class ServedModels:
    """Models that sample in servers."""

    modules: Mapping[str, Any]
    """Model -> the module that its learner trains, where it learns in this process."""
    backends: Mapping[str, VLLMBackend]
    """Model, pool, and frozen model on the adapters' base -> what samples for it."""
    publisher: WeightPublisher
    close: Callable[[], None]
    """Unloads what was published, and ends the servers that were started."""


@dataclass(frozen=True)
class AskedServers:
    """Servers that somebody else runs and publishes to, as those are told who ask them."""

    urls: Mapping[str, Sequence[str]]
    """Served base -> its servers' addresses."""
    facts: Mapping[str, TokenFacts]
    """Of each served base."""
    still: Sequence[str]
    """Frozen models that play there, as adapters of zeros."""
    concurrency: int
    """Calls under way at once to each server."""
    key: str = field(repr=False)
    """The guests'."""


class PublishedElsewhere:
    """In the place of a publisher where somebody else publishes."""

    def publish(self, name: str, version: int | str, tensors: Mapping[str, Tensor]) -> None:
        """Raises TrainingError."""
        raise TrainingError(f"{name} is published by whoever runs its servers, and not from here")


def ask_servers(
    config: RunConfig, backend: VLLMBackendConfig, servers: AskedServers
) -> ServedModels:
    """Ask servers that somebody else runs, without loading a model, once they let guests in.

    Raises BackendError where one does not within backend.managed.start_timeout.
    """
    fleet = Fleet.attached(
        servers.urls,
        concurrency=servers.concurrency,
        deadline=backend.deadline,
        key=servers.key,
        patience=backend.managed.start_timeout if backend.managed else 0.0,
    )
    own = asking(config, backend, fleet.scheduler, servers.facts)
    backends = by_player(config, own, servers.still)
    return ServedModels({}, backends, PublishedElsewhere(), fleet.close)


def serve_models(
    config: RunConfig,
    backend: VLLMBackendConfig,
    make_env: Callable[[], Any],
    bases: Mapping[str, str],
    frozen: Mapping[str, str],
    logs: Path | None = None,
) -> ServedModels:
    """Load the models to train from `bases`, and start or attach to the servers that sample.

    A frozen model of the very base that adapters share plays there too, with an adapter of zeros:
    servers on CPUs mix the plain base up with adapters. `logs` is the folder of the servers' logs
    (None: server-logs in the cache folder). Raises ConfigError before anything is loaded where
    `backend` names what is not there, ServingError where a server cannot be started, and
    BackendError where one cannot be reached.
    """
    if backend.managed is not None:
        check_python(backend.managed)
    with ExitStack() as ends:
        folder = ends.enter_context(folder_for_weights(backend.folder))
        starts = servable(config, make_env, {**bases, **frozen})
        learning, frozen = ({name: starts[name] for name in own} for own in (bases, frozen))
        sources = served_bases(config, learning)
        loaded, modules, _ = learning_models(config.models, learning, make_env, config.seed)
        fleet = open_fleet(config, backend, sources, logs)
        ends.callback(fleet.close)
        # Of adapters all are one.
        known = {b: TokenFacts.of(own) for b, own in zip(sources, loaded.values(), strict=False)}
        still = still_on_base(config, sources, frozen)
        backends = by_player(config, asking(config, backend, fleet.scheduler, known), still)
        shapes = {name: modules[shape] for name, shape in shapes_of(config, still).items()}
        publications = publications_of(
            config, backend, backends, fleet, probe_of(make_env, next(iter(loaded.values())))
        )

        def write(name: str, weights: Mapping[str, Tensor], folder: Path) -> Tensor:
            return write_weights(shapes[name], weights, publications.probes, folder)

        publisher = ServedPublisher(
            publications, write, folder=Path(folder), adapters=config.models.adapters is not None
        )
        ends.callback(publisher.close)
        fleet.on_up(publisher.reload)
        for name in still:
            trained = {n: p for n, p in shapes[name].named_parameters() if p.requires_grad}
            publisher.publish(name, 0, {n: torch.zeros_like(p) for n, p in trained.items()})
        return ServedModels(modules, backends, publisher, ends.pop_all().close)


def asking(
    config: RunConfig,
    backend: VLLMBackendConfig,
    scheduler: Scheduler[Endpoint],
    known: Mapping[str, TokenFacts],
) -> dict[str, VLLMBackend]:
    """Served base -> what asks its servers."""
    template = config.models.chat_template_kwargs
    return {
        base: own.asking(scheduler, base, seeded=backend.seeded, chat_template_kwargs=template)
        for base, own in known.items()
    }


def by_player(config: RunConfig, own: Mapping[str, T], still: Iterable[str]) -> dict[str, T]:
    """Model, pool, and frozen model on the adapters' base -> that of its served base in `own`."""
    return {
        name: own[BASE if config.models.adapters else name] for name in shapes_of(config, still)
    }


def shapes_of(config: RunConfig, still: Iterable[str]) -> dict[str, str]:
    """Model, pool, and frozen model on the adapters' base -> a model of the same parameters."""
    names = config.models.names
    shapes = {name: name for name in names}
    if config.models.adapters is None:
        return shapes
    shared = {pool: own.of[0] for pool, own in config.opponent_pools.items()}
    return {**shapes, **shared, **dict.fromkeys(still, names[0])}


def still_on_base(
    config: RunConfig, sources: Mapping[str, str], frozen: Mapping[str, str]
) -> list[str]:
    """The frozen models (name -> what is loaded for it) that are the very base of adapters;
    `sources`: served base -> what its servers load."""
    if config.models.adapters is None:
        return []
    return [name for name, base in frozen.items() if base == sources[BASE]]


def publications_of(
    config: RunConfig,
    backend: VLLMBackendConfig,
    backends: Mapping[str, Answering],
    fleet: Fleet,
    probe: Sequence[int],
) -> Publications:
    """What the servers of a run hold, as its configuration says."""
    tolerance = TOLERANCES.get(config.models.dtype, OTHER_TOLERANCE)
    return Publications(
        backends,
        fleet,
        probe=probe,
        tolerance=backend.probe_tolerance or tolerance,
        deadline=backend.deadline,
        keep=backend.keep_versions,
    )


def folder_for_weights(folder: str | None) -> TemporaryDirectory[str]:
    """A new folder in `folder`, which is removed at the end of the program at the latest."""
    try:
        return TemporaryDirectory(prefix="published-", dir=folder, ignore_cleanup_errors=True)
    except OSError as error:
        raise no_folder(folder, error) from error


def no_folder(folder: str | None, error: OSError) -> ConfigError:
    """For a folder that weights cannot be written to."""
    return ConfigError(
        f"backend.folder: no weights can be written to {folder!r} ({error.strerror}): give a "
        "folder that is there and may be written to"
    )


def open_fleet(
    config: RunConfig,
    backend: VLLMBackendConfig,
    sources: Mapping[str, str],
    logs: Path | None = None,
) -> Fleet:
    """The configuration's servers, ready to answer: started here, or attached to.

    `sources`: base -> the folder or hub name that its servers start from; `logs`: as for
    `serve_models`.
    """
    if backend.managed is None:
        urls = {
            base: backend.servers if config.models.adapters else (backend.servers[place],)
            for place, base in enumerate(sources)
        }
        return Fleet.attached(urls, concurrency=backend.concurrency, deadline=backend.deadline)
    specs = server_specs(
        config,
        backend.managed,
        sources,
        keep_versions=backend.keep_versions,
        log_folder=logs or logs_folder(),
    )
    return Fleet.managed(
        specs,
        concurrency=backend.concurrency,
        deadline=backend.deadline,
        max_restarts=backend.managed.max_restarts,
        start_timeout=backend.managed.start_timeout,
    )


def probe_of(make_env: Callable[[], Any], backend: HuggingFaceBackend) -> list[int]:
    """Token ids that a publication is checked on: how a game of the environment begins."""
    with closing(make_env()) as env:
        observations, infos = env.reset(seed=0)
        agent = env.agents[0]
        mask = infos[agent].get("action_mask")
        seen = AgentObservation(agent, observations[agent], mask)
        [prompt] = backend.chat.prompts([turn_of(env.unwrapped.text_view, seen)])
    return list(prompt[-PROBED_TOKENS:])
