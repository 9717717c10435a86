"""Models in training that sample in vLLM servers: modules, servers, backends and publisher."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from torch import Tensor

from srl_agents.errors import PlacementError, ServingError
from srl_agents.llm import tiny
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.huggingface.loading import source_of
from srl_agents.llm.text_policy import turn_of
from srl_agents.policy import AgentObservation
from srl_extensions.vllm.backend import VLLMBackend
from srl_extensions.vllm.command import ServerSpec, program
from srl_extensions.vllm.config import ManagedServersConfig, VLLMBackendConfig
from srl_extensions.vllm.fleet import Fleet
from srl_extensions.vllm.placement import Gpu, find_gpus, place
from srl_extensions.vllm.publisher import ServedPublisher, VersionedSampler, Write, write_weights
from srl_extensions.vllm.server import free_port, logs_folder
from srl_train.adapters import adapter_base
from srl_train.config.run import RunConfig
from srl_train.errors import ConfigError
from srl_train.loading import Samplers, SamplerStart, learning_models
from srl_train.player_names import TINY

BASE = "base"
"""Served name of the base that adapters share; a whole model has its own name."""
KEPT_VERSIONS = 1
"""Past versions of each model that stay loaded, so that a publication does not wait for episodes
that are still played with the version before."""
PROBED_TOKENS = 64


@dataclass(frozen=True)
class TokenFacts:
    """Properties of a base that its requests depend on, as plain data."""

    name: str
    """Name in records."""
    tokenizer: Any
    positions: int | None
    """Longest context in tokens."""
    vocabulary: int
    """Number of token ids."""
    stop_ids: frozenset[int]
    """Tokens that end an answer."""

    @classmethod
    def of(cls, own: HuggingFaceBackend) -> TokenFacts:
        """Return the properties of a model that is loaded in this process."""
        return cls(own.name, own.tokenizer, own.positions, own.vocabulary, own.chat.stop_ids)

    def backend(self, fleet: Fleet, base: str, **settings: Any) -> VLLMBackend:
        """Return a backend for the servers of `base`, with further `settings` of VLLMBackend."""
        facts = {**vars(self), **settings}
        return VLLMBackend(fleet.routers[base], facts.pop("tokenizer"), base=base, **facts)


def serve_models(config: RunConfig, start: SamplerStart) -> Samplers:
    """Load the models to train, start or attach to servers, and publish the first weights.

    Frozen models on the adapters' base sample in the servers, with an adapter of zeros: servers on
    CPUs confuse the plain base with adapters.

    Raises:
        ConfigError: Before anything is loaded, for missing files and programs.
        ServingError: If a server cannot be started.
        BackendError: If a server cannot be reached.
    """
    backend, make_env, bases = config.backend, start.make_env, config.models.bases
    assert isinstance(backend, VLLMBackendConfig)
    if backend.managed is not None:
        check_python(backend.managed)
    with ExitStack() as ends:
        folder = ends.enter_context(folder_for_weights(backend.folder))
        starts = servable(config, make_env, {**bases, **start.frozen})
        learning, frozen = ({name: starts[name] for name in own} for own in (bases, start.frozen))
        sources = served_bases(config, learning)
        loaded, modules, _ = learning_models(config.models, learning, make_env, config.seed)
        fleet = open_fleet(config, backend, sources, start.logs)
        ends.callback(fleet.close)
        # Adapters share one base.
        facts = {b: TokenFacts.of(own) for b, own in zip(sources, loaded.values(), strict=False)}
        shapes = shapes_of(config, sources, frozen)
        backends = backends_of(config, fleet, facts, shapes)
        probe = probe_of(make_env, next(iter(loaded.values())))

        def write(name: str, weights: Mapping[str, Tensor], probes: Any, folder: Path) -> Tensor:
            return write_weights(modules[shapes[name]], weights, probes, folder)

        publisher = publisher_of(config, backends, fleet, probe, write, Path(folder))
        ends.callback(publisher.close)
        for name in shapes.keys() & frozen.keys():
            trained = modules[shapes[name]].named_parameters()
            zeros = {n: torch.zeros_like(p) for n, p in trained if p.requires_grad}
            publisher.publish(name, 0, zeros)
        return Samplers(modules, backends, publisher, ends.pop_all().close)


def shapes_of(
    config: RunConfig, sources: Mapping[str, str], frozen: Mapping[str, str]
) -> dict[str, str]:
    """Return a model of the same shapes for each model, pool and frozen model on the servers."""
    names = config.models.names
    shapes = {name: name for name in names}
    if config.models.adapters is None:
        return shapes
    zeros = [name for name, base in frozen.items() if base == sources[BASE]]
    shared = {pool: own.models[0] for pool, own in config.opponent_pools.items()}
    return {**shapes, **shared, **dict.fromkeys(zeros, names[0])}


def backends_of(
    config: RunConfig, fleet: Fleet, facts: Mapping[str, TokenFacts], names: Iterable[str]
) -> dict[str, VLLMBackend]:
    """Return the backend of each name that the servers sample for."""
    template = config.models.chat_template_kwargs
    own = {
        base: one.backend(fleet, base, chat_template_kwargs=template) for base, one in facts.items()
    }
    return {name: own[base_of(config, name)] for name in names}


def base_of(config: RunConfig, name: str) -> str:
    """Return the served base of a model, pool or frozen model."""
    return BASE if config.models.adapters else name


def publisher_of(
    config: RunConfig,
    samplers: Mapping[str, VersionedSampler],
    fleet: Fleet,
    probe: Sequence[int],
    write: Write,
    folder: Path,
) -> ServedPublisher:
    """Return the publisher of a run, whose publications are written to `folder`."""
    return ServedPublisher(
        samplers,
        fleet,
        write,
        folder=folder,
        probe=probe,
        dtype=config.models.dtype,
        adapters=config.models.adapters is not None,
        keep=KEPT_VERSIONS,
        every=config.backend.publication_lag + 1,
    )


def folder_for_weights(folder: str | None) -> TemporaryDirectory[str]:
    """Create a temporary folder in `folder`. Raises ConfigError if that is not possible."""
    try:
        return TemporaryDirectory(prefix="published-", dir=folder, ignore_cleanup_errors=True)
    except OSError as error:
        raise ConfigError(
            f"backend.folder: no weights can be written to {folder!r} ({error.strerror}): give an "
            "existing folder with the permission to write"
        ) from error


def open_fleet(
    config: RunConfig,
    backend: VLLMBackendConfig,
    sources: Mapping[str, str],
    logs: Path | None = None,
) -> Fleet:
    """Start or attach to the servers of `sources` (served base -> folder or hub name)."""
    if backend.managed is None:
        return Fleet.attached(
            {
                base: backend.servers if config.models.adapters else (backend.servers[place],)
                for place, base in enumerate(sources)
            }
        )
    return Fleet.managed(server_specs(config, backend.managed, sources, logs))


def probe_of(make_env: Callable[[], Any], backend: HuggingFaceBackend) -> list[int]:
    """Return token ids that publications are compared on: the beginning of an episode."""
    with closing(make_env()) as env:
        observations, infos = env.reset(seed=0)
        agent = env.agents[0]
        mask = infos[agent].get("action_mask")
        seen = AgentObservation(agent, observations[agent], mask)
        [prompt] = backend.chat.prompts([turn_of(env.unwrapped.text_view, seen)])
    return list(prompt[-PROBED_TOKENS:])


def servable(
    config: RunConfig, make_env: Callable[[], Any], bases: Mapping[str, str]
) -> dict[str, str]:
    """Return the start of each model, the embedded model with heads that vLLM supports."""
    starts = dict(bases)
    embedded = [name for name, base in bases.items() if base == TINY]
    if embedded:
        folder = str(tiny.folder(make_env, size=tiny.SERVABLE))
        starts |= dict.fromkeys(embedded, folder)
    return starts


def served_bases(config: RunConfig, starts: Mapping[str, str]) -> dict[str, str]:
    """Return the folder or hub name of each served base.

    Adapters share one base. A whole model has its own, and its weights are published before its
    first request.

    Raises:
        ConfigError: For adapters of several bases.
    """
    under = {name: adapter_base(start) or start for name, start in starts.items()}
    adapters = config.models.adapters
    if adapters and len({source_of(base)[0] for base in under.values()}) > 1:
        raise ConfigError(
            "models.adapters: the servers of backend.name vllm hold adapters of one base, and "
            f"models.base is {sorted(set(under.values()))}: give one"
        )
    return {BASE if adapters else name: under[name] for name in config.models.names}


def check_python(managed: ManagedServersConfig) -> None:
    """Raise ConfigError for an interpreter that does not exist or cannot import vLLM."""
    if managed.python is None and importlib.util.find_spec("vllm") is None:
        raise ConfigError(
            "backend.managed.python: not given, and the trainer's own Python has no vLLM: give "
            "that of an environment with it, such as /opt/vllm/bin/python (docs/agents/serving.md)"
        )
    try:
        program(sys.executable if managed.python is None else managed.python)
    except ServingError as error:
        raise ConfigError(f"backend.managed.python: {error}") from error


def server_specs(
    config: RunConfig,
    managed: ManagedServersConfig,
    sources: Mapping[str, str],
    logs: Path | None = None,
    *,
    gpus: Sequence[Gpu] | None = None,
    host: str = "127.0.0.1",
) -> list[ServerSpec]:
    """Return the settings of a server for each replica of each of `sources`.

    Servers use `gpus` (None: those of this machine), or the CPU if there are none.

    Raises:
        PlacementError: For a server that does not fit.
    """
    there = find_gpus() if gpus is None else gpus
    used = [gpu for gpu in there if managed.gpus is None or gpu.index in managed.gpus]
    if managed.gpus and len(used) < len(set(managed.gpus)):
        raise PlacementError(
            f"backend.managed.gpus: got {list(managed.gpus)}, and this machine has "
            f"{[gpu.index for gpu in there] or 'none'}: give some of those, or leave it out"
        )
    options: list[str] = []  # A flag is true, its negation is false.
    for name, value in managed.options.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            options.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            options += [f"--{flag}", str(value)]
    servers = [name for name in sources for _ in range(managed.replicas)]
    placements = place(len(servers), used, each=managed.gpus_per_server)
    models, ports = config.models, list[int]()
    # Each model and pool has its newest, past and next version; each frozen model has one.
    learning = models.count + len(config.opponent_pools)
    slots = learning * (KEPT_VERSIONS + 2) + len(models.frozen_models)
    for number in range(len(servers)):
        first = managed.base_port
        ports.append(free_port(host, ports) if first is None else first + number)
    return [
        ServerSpec(
            model=sources[name],
            served_name=name,
            port=port,
            log_folder=logs or logs_folder(),
            host=host,
            gpus=placed.gpus,
            dtype=models.dtype,
            adapter_slots=slots if models.adapters else 0,
            max_rank=models.adapters.rank if models.adapters else 1,
            memory_fraction=placed.memory_fraction,
            extra_arguments=tuple(options),
            python=managed.python or sys.executable,
        )
        for name, placed, port in zip(servers, placements, ports, strict=True)
    ]
