"""Specifications of the model servers that a run's configuration asks for."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import psutil

from srl_agents.errors import PlacementError, ServingError
from srl_agents.llm import tiny
from srl_agents.llm.backends.huggingface.sources import folder_of, source_of
from srl_agents.serving import placement
from srl_agents.serving.command import ServerSpec, program
from srl_agents.serving.gpus import Gpu, find_gpus
from srl_agents.serving.model_size import needs_of
from srl_agents.serving.server import free_port
from srl_train.checkpoints.adapter_folders import adapter_base
from srl_train.config.backend import ManagedServersConfig
from srl_train.config.run import RunConfig
from srl_train.errors import ConfigError
from srl_train.players.player_spec import TINY
from srl_train.players.trained_models import configured_notes

BASE = "base"
"""What servers call the base that adapters share; a whole model is called by its own name."""
GIB = 2**30
FIRST_PORT = 8001
"""From which on free ports are looked for."""


def servable(
    config: RunConfig, make_env: Callable[[], Any], bases: Mapping[str, str]
) -> dict[str, str]:
    """Model -> what to load for its base; the embedded model, built or found once for all of them,
    has heads there that vLLM can serve."""
    starts = dict(bases)
    embedded = [name for name, base in bases.items() if base == TINY]
    if embedded:
        notes = configured_notes(config.models, make_env)
        folder = str(tiny.folder(make_env, size=tiny.SERVABLE, notes=notes))
        starts |= dict.fromkeys(embedded, folder)
    return starts


def served_bases(config: RunConfig, starts: Mapping[str, str]) -> dict[str, str]:
    """Served base -> the folder or hub name that its servers start from; `starts`: model that
    learns -> what is loaded for it.

    Adapters share one; of whole models each has its own, whose weights are published before it is
    asked for the first time. Raises ConfigError for adapters of several bases.
    """
    under = {name: adapter_base(start) or start for name, start in starts.items()}
    adapters = config.models.adapters
    if adapters and len({source_of(base)[0] for base in under.values()}) > 1:
        raise ConfigError(
            "models.adapters: the servers of backend.name vllm hold adapters of one base, and "
            f"models.base comes to {sorted(set(under.values()))}: give one"
        )
    return {BASE if adapters else name: under[name] for name in config.models.names}


def check_python(managed: ManagedServersConfig) -> None:
    """Raise ConfigError where `managed` names no interpreter that could have vLLM."""
    if managed.python is None:
        if importlib.util.find_spec("vllm") is None:
            raise ConfigError(
                "backend.managed.python: not given, and the trainer's own Python has no vLLM: give "
                "that of an environment with it, such as /opt/vllm/bin/python "
                "(docs/agents/serving.md)"
            )
        return
    try:
        program(managed.python)
    except ServingError as error:
        raise ConfigError(f"backend.managed.python: {error}") from error


def adapter_slots(config: RunConfig, keep_versions: int) -> int:
    """Adapters that a server has to hold at once: every model's and pool's newest version, those
    kept beside it and the next one as it is published, and one per frozen model."""
    models = config.models
    if models.adapters is None:
        return 0
    learning = models.count + len(config.opponent_pools)
    return learning * (keep_versions + 2) + len(models.frozen_models)


def server_specs(
    config: RunConfig,
    managed: ManagedServersConfig,
    sources: Mapping[str, str],
    *,
    keep_versions: int,
    log_folder: Path,
    gpus: Sequence[Gpu] | None = None,
) -> list[ServerSpec]:
    """A server for each replica of each of `sources` (served base -> where it is loaded from), on
    `gpus` (None: this machine's), else on the CPU.

    Raises PlacementError for what does not fit, BackendError for a base that cannot be read.
    """
    there, chosen = find_gpus() if gpus is None else gpus, managed.gpus
    gpus = [gpu for gpu in there if chosen is None or gpu.index in chosen]
    if chosen and len(gpus) < len(set(chosen)):
        raise PlacementError(
            f"backend.managed.gpus: got {list(chosen)}, and this machine has "
            f"{[gpu.index for gpu in there] or 'none'}: give some of those, or leave it out"
        )
    rank = config.models.adapters.rank if config.models.adapters else 1
    bases = [
        needs_of(
            folder_of(source),
            name=name,
            dtype=config.models.dtype,
            context=managed.max_model_len,
            adapter_slots=adapter_slots(config, keep_versions),
            rank=rank,
            replicas=managed.replicas,
        )
        for name, source in sources.items()
    ]
    plans = placement.place(
        bases,
        gpus,
        _ports(managed, len(bases) * managed.replicas),
        cpu_memory_gib=psutil.virtual_memory().available / GIB,
        fraction=managed.memory_fraction,
    )
    return [
        ServerSpec(
            model=sources[plan.base],
            served_name=plan.base,
            port=plan.port,
            log_folder=log_folder,
            host=managed.host,
            gpus=plan.gpus,
            dtype=config.models.dtype,
            max_model_len=managed.max_model_len,
            adapter_slots=plan.adapter_slots,
            max_rank=rank,
            memory_gib=plan.cache_gib,
            memory_fraction=plan.memory_fraction,
            extra_arguments=_as_arguments(managed.options),
            python=managed.python or sys.executable,
        )
        for plan in plans
    ]


def _ports(managed: ManagedServersConfig, count: int) -> list[int]:
    """As many as there are servers: those configured, used or not, else free ones."""
    if managed.base_port is not None:
        return list(range(managed.base_port, managed.base_port + count))
    ports: list[int] = []
    for _ in range(count):
        ports.append(free_port(managed.host, ports[-1] + 1 if ports else FIRST_PORT))
    return ports


def _as_arguments(options: Mapping[str, str | int | float | bool]) -> tuple[str, ...]:
    """Options of vLLM's command line; true is a flag alone, false its refusal."""
    words: list[str] = []
    for name, value in options.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [f"--{flag}", str(value)]
    return tuple(words)
