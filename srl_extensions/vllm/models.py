"""Models in training that sample in vLLM servers: modules, servers, backends and publisher."""

from __future__ import annotations

import importlib.util
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, closing
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor

from srl_agents.errors import PlacementError, ServerUnavailable, ServingError
from srl_agents.llm import tiny
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.huggingface.loading import source_of
from srl_agents.llm.backends.registry import is_api_name
from srl_agents.llm.text_policy import turn_of
from srl_agents.policy import AgentObservation
from srl_extensions.vllm.backend import VLLMBackend
from srl_extensions.vllm.config import ManagedServersConfig, VLLMBackendConfig
from srl_extensions.vllm.fleet import CONCURRENCY, MAX_RESTARTS, Fleet
from srl_extensions.vllm.placement import find_gpus, place
from srl_extensions.vllm.publisher import ServedPublisher, write_weights
from srl_extensions.vllm.routing import MAX_WAIT
from srl_extensions.vllm.server import ServerSpec, free_port, logs_folder, program
from srl_train.adapters import adapter_base
from srl_train.config.run import RunConfig
from srl_train.errors import ConfigError
from srl_train.loading import InProcessPublisher, Samplers, SamplerStart, learning_models
from srl_train.player_names import TINY

BASE = "base"
"""Served name of the base that adapters share; a whole model is served under its own name."""
KEPT_VERSIONS = 1
"""Number of past versions of each model that stay loaded, so that a publication does not wait for
episodes that still use the previous version."""
PROBED_TOKENS = 64
Apply = Callable[..., Any]
"""Function (function, *arguments) that returns `function(module, backend, make_env, *arguments)`,
called in the process of a model's learner."""


def token_facts(backend: HuggingFaceBackend) -> dict[str, Any]:
    """Return name, tokenizer, positions, vocabulary and stop_ids, to construct a VLLMBackend."""
    facts = {name: getattr(backend, name) for name in ("name", "tokenizer", "positions")}
    return {**facts, "vocabulary": backend.vocabulary, "stop_ids": backend.chat.stop_ids}


class ServedModels:
    """Models of a run that sample in servers: their served bases, fleet and publisher.

    The constructor finds the served bases and creates a folder for weights. `start` starts or
    attaches to the servers; `close` ends them and removes the folder. Errors are those of
    `served_bases`, and ConfigError for backend.folder.
    """

    def __init__(
        self, config: RunConfig, make_env: Callable[[], Any], logs: Path | None = None
    ) -> None:
        models = config.models
        frozen = {n: base for n, base in models.frozen_models.items() if not is_api_name(base)}
        starts, self._sources = served_bases(config, make_env, frozen)
        self._config, self._backend, self._logs = config, section_of(config), logs
        self.is_local = self._backend.managed is not None
        """True if the servers accept requests of this machine only."""
        self.starts = {name: starts[name] for name in models.names}
        """Model in training -> folder or hub name that its learner loads."""
        self._shapes = {name: name for name in models.names}
        """Name that is sampled -> model in training with parameters of the same shapes."""
        self._frozen: list[str] = []
        if models.adapters is not None:
            # Servers on CPUs confuse the plain base with adapters, so a frozen model on the
            # adapters' base is served as an adapter of zeros.
            self._frozen = [name for name in frozen if starts[name] == self._sources[BASE]]
            pools = config.opponent_pools
            self._shapes |= {name: pool.models[0] for name, pool in pools.items()}
            self._shapes |= dict.fromkeys(self._frozen, models.names[0])
        self._served = {name: BASE if models.adapters else name for name in self._shapes}
        """Name that is sampled -> its served base."""
        self._ends = ExitStack()
        place = self._backend.folder
        try:
            folder = TemporaryDirectory(prefix="published-", dir=place, ignore_cleanup_errors=True)
        except OSError as error:
            raise ConfigError(
                f"backend.folder: no weights can be written to {place!r} ({error.strerror})"
            ) from error
        self._folder = Path(self._ends.enter_context(folder))

    def start(self, learners: Mapping[str, Apply]) -> None:
        """Start or attach to the servers, and set `facts` and the method `check`.

        `facts` are collected in the processes of the learners: `learners` maps each model, in
        order, to a function that runs functions there. Raises the errors of `open_fleet`.
        """
        self._learners = learners
        self._fleet = open_fleet(self._config, self._sources, self._logs)
        self._ends.callback(self._fleet.close)
        self.check = self._fleet.check
        # Adapters share one base, which the first learner describes.
        described = dict(zip(self._sources, learners.values(), strict=False))
        found = {base: learner(_facts_and_probe) for base, learner in described.items()}
        template = {"chat_template_kwargs": self._config.models.chat_template_kwargs}
        self.facts = {base: facts | template for base, (facts, _) in found.items()}
        """Served base -> arguments of its VLLMBackend."""
        _, self._probe = next(iter(found.values()))

    def backends(self) -> dict[str, VLLMBackend]:
        """Return model -> new backend; `start` must be called first.

        With adapters, all models share one backend. The names then include the opponent pools, and
        the frozen models on the adapters' base.
        """
        return _backends(self._fleet, self.facts, self._served)

    def attachment(self, players: int) -> Callable[[RunConfig], Samplers]:
        """Return a function that opens Samplers at the servers; call `start` first.

        `players` processes may call the function; each has an equal part of the open calls.
        """
        urls: dict[str, list[str]] = {}
        for member in self._fleet.members:
            urls.setdefault(member.base, []).append(member.client.url)
        concurrency = max(1, CONCURRENCY // players)
        return partial(
            _attach, urls=urls, facts=self.facts, served=self._served, concurrency=concurrency
        )

    def open_publisher(self, samplers: Mapping[str, VLLMBackend]) -> ServedPublisher:
        """Return a publisher to `samplers` (served base -> backend); call `start` first.

        Also publishes adapters of zeros for frozen models on the adapters' base.
        """
        models = self._config.models

        def write(name: str, weights: Mapping[str, Tensor], *arguments: Any) -> Tensor:
            learner = self._learners[self._shapes[name]]
            expected: Tensor = learner(_write, dict(weights), *arguments)
            return expected

        publisher = ServedPublisher(
            {name: samplers[base] for name, base in self._served.items()},
            self._fleet,
            write,
            folder=self._folder,
            probe=self._probe,
            dtype=models.dtype,
            adapters=models.adapters is not None,
            keep=KEPT_VERSIONS,
        )
        self._ends.callback(publisher.close)
        if self._frozen:
            zeros = self._learners[models.names[0]](_zeros)
            for name in self._frozen:
                publisher.publish(name, 0, zeros)
        return publisher

    def close(self) -> None:
        """Unload and remove publications, and end the servers that the run started."""
        self._ends.close()


def _attach(
    config: RunConfig,
    urls: Mapping[str, Sequence[str]],
    facts: Mapping[str, Mapping[str, Any]],
    served: Mapping[str, str],
    concurrency: int,
) -> Samplers:
    latest = time.monotonic() + MAX_WAIT
    while True:
        try:
            fleet = Fleet.attached(urls, concurrency=concurrency)
            break
        except ServerUnavailable:  # A server is restarted at the same time as this player.
            if time.monotonic() > latest:
                raise
            time.sleep(1.0)
    nothing = InProcessPublisher({}, {}, frozenset())  # The process with the learners publishes.
    return Samplers({}, _backends(fleet, facts, served), nothing, fleet.close)


def _backends(
    fleet: Fleet, facts: Mapping[str, Mapping[str, Any]], served: Mapping[str, str]
) -> dict[str, VLLMBackend]:
    of_bases = {
        base: VLLMBackend(fleet.routers[base], base=base, **arguments)
        for base, arguments in facts.items()
    }
    return {name: of_bases[base] for name, base in served.items()}


# Functions that run in the process of a learner; see Apply.


def _facts_and_probe(module: Any, backend: Any, make_env: Any) -> tuple[dict[str, Any], list[int]]:
    with closing(make_env()) as env:
        observations, infos = env.reset(seed=0)
        agent = env.agents[0]
        mask = infos[agent].get("action_mask")
        seen = AgentObservation(agent, observations[agent], mask)
        [prompt] = backend.chat.prompts([turn_of(env.unwrapped.text_view, seen)])
    return token_facts(backend), list(prompt[-PROBED_TOKENS:])


def _zeros(module: Any, backend: Any, make_env: Any) -> dict[str, Tensor]:
    trained = {n: p for n, p in module.named_parameters() if p.requires_grad}
    return {name: torch.zeros(p.shape, dtype=p.dtype) for name, p in trained.items()}


def _write(module: Any, backend: Any, make_env: Any, *arguments: Any) -> Tensor:
    return write_weights(module, *arguments)


def serve_models(config: RunConfig, start: SamplerStart) -> Samplers:
    """Load the models to train, start or attach to servers, and return the Samplers.

    Raises ConfigError, ServingError or BackendError for a part that cannot be used.
    """
    make_env = start.make_env
    served = ServedModels(config, make_env, start.logs)
    with ExitStack() as ends:
        ends.callback(served.close)
        loaded, modules, _ = learning_models(config.models, served.starts, make_env, config.seed)

        def apply(model: str, function: Callable[..., Any], *arguments: Any) -> Any:
            return function(modules[model], loaded[model], make_env, *arguments)

        served.start({model: partial(apply, model) for model in modules})
        backends = served.backends()
        publisher = served.open_publisher({one.base: one for one in backends.values()})
        return Samplers(modules, backends, publisher, ends.pop_all().close)


def section_of(config: RunConfig) -> VLLMBackendConfig:
    """Return the section `backend`; AssertionError if it is not that of vLLM."""
    assert isinstance(config.backend, VLLMBackendConfig)
    return config.backend


def open_fleet(config: RunConfig, sources: Mapping[str, str], logs: Path | None = None) -> Fleet:
    """Start or attach to the servers of `sources` (served base -> folder or hub name).

    Waits until all are ready. `logs` is the folder for logs of started servers (None: in the
    cache). Raises ServingError if a server does not start, PlacementError for missing GPUs, and
    BackendError if a running server completes no token.
    """
    backend = section_of(config)
    # Players in other processes would not notice that a whole model restarts from its base.
    restarts = 0 if config.engine.name == "ray" and not config.models.adapters else MAX_RESTARTS
    if backend.managed is not None:
        specs = server_specs(config, backend.managed, sources, logs)
        return Fleet.managed(specs, restarts=restarts)
    if config.models.adapters:
        return Fleet.attached({BASE: backend.servers})
    urls = {n: (url,) for n, url in zip(sources, backend.servers, strict=True)}
    return Fleet.attached(urls, restarts=restarts)


def served_bases(
    config: RunConfig, make_env: Callable[[], Any], frozen: Mapping[str, str] = MappingProxyType({})
) -> tuple[dict[str, str], dict[str, str]]:
    """Return (model -> its first weights, served base -> weights that servers load).

    Weights are a folder or hub name. The first mapping includes `frozen` (name -> base). For
    'tiny', a variant that vLLM can serve is written to the cache. Adapters share the served base
    BASE; a whole model has its own, of its name. Raises ConfigError or BackendError for these.
    """
    models, managed = config.models, section_of(config).managed
    if managed is not None:
        check_python(managed)
    starts = {**models.bases, **frozen}
    embedded = [name for name, base in starts.items() if base == TINY]
    if embedded:
        folder = str(tiny.folder(make_env, size=tiny.SERVABLE))
        starts |= dict.fromkeys(embedded, folder)
    under = {name: adapter_base(starts[name]) or starts[name] for name in models.names}
    if models.adapters and len({source_of(base)[0] for base in under.values()}) > 1:
        raise ConfigError(
            "models.base must be one base for all models with models.adapters and backend.name "
            f"vllm, got {sorted(set(under.values()))}"
        )
    return starts, {BASE if models.adapters else name: base for name, base in under.items()}


def check_python(managed: ManagedServersConfig) -> None:
    """Raise ConfigError if `managed.python` is not found, or None and this Python has no vLLM."""
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
) -> list[ServerSpec]:
    """Return the settings of each server: `managed.replicas` for each base in `sources`.

    Servers use `managed.gpus` (None: all GPUs), or the CPU if there are none. `sources` and `logs`
    are as in `open_fleet`. Raises PlacementError for missing or too few GPUs.
    """
    existing = find_gpus()
    used = [gpu for gpu in existing if managed.gpus is None or gpu.index in managed.gpus]
    if managed.gpus and len(used) < len(set(managed.gpus)):
        raise PlacementError(
            f"backend.managed.gpus must be some of {[gpu.index for gpu in existing]}, the GPUs of "
            f"this machine, or left out, got {list(managed.gpus)}"
        )
    options: list[str] = []  # A true value is a flag, a false one its negation.
    for flag, value in managed.options.items():
        if isinstance(value, bool):
            options.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            options += [f"--{flag}", str(value)]
    servers = [name for name in sources for _ in range(managed.replicas)]
    each = int(managed.options.get("tensor-parallel-size", 1))
    placements = place(len(servers), used, each=each)
    models, ports = config.models, list[int]()
    # Each model and pool has its newest, past and next version; each frozen model has one.
    learning = models.count + len(config.opponent_pools)
    slots = learning * (KEPT_VERSIONS + 2) + len(models.frozen_models)
    first = managed.base_port
    for number in range(len(servers)):
        ports.append(free_port(ports) if first is None else first + number)
    return [
        ServerSpec(
            model=sources[name],
            served_name=name,
            port=port,
            log_folder=logs or logs_folder(),
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
