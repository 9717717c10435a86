"""Documented schedulers: vLLM servers of several models, and of one base with LoRA adapters."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Literal, Self

import torch
from torch import Tensor

from core_srl.adapters import LoRAManager, adapter_of
from core_srl.errors import loading
from core_srl.llm_config import (
    ANSWER_TOKENS,
    LLMConfig,
    LLMResponse,
    LoRAConfig,
    check_text,
    sampling_with,
)
from core_srl.models import MODERN_MODELS
from srl_agents.errors import ServingError
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.chat_backend import ChatRequest
from srl_agents.llm.backends.huggingface.backend import evaluating
from srl_agents.llm.backends.huggingface.loading import folder_of
from srl_agents.llm.backends.network import RetryPolicy
from srl_agents.llm.backends.openai import OpenAIModel
from srl_agents.llm.chat_format import ChatTurn
from srl_agents.llm.model_folders import folder_for
from srl_agents.llm.sampling import Sampling
from srl_envs.validation import check_choice, whole_number
from srl_extensions.vllm.backend import VLLMBackend
from srl_extensions.vllm.client import UNREACHABLE, VLLMClient
from srl_extensions.vllm.command import ServerSpec
from srl_extensions.vllm.fleet import CONCURRENCY, Fleet
from srl_extensions.vllm.models import TokenFacts
from srl_extensions.vllm.placement import Placement, find_gpus, place
from srl_extensions.vllm.publisher import PROBES, PROBING, ServedPublisher
from srl_extensions.vllm.routing import MAX_WAIT, RoutedTask
from srl_extensions.vllm.server import logs_folder
from srl_train.errors import ConfigError

CHARACTERS_PER_TOKEN = 4
"""Estimate for English, to compare the sizes of prompts."""
SAMPLING = Sampling(temperature=LLMConfig.temperature, max_new_tokens=ANSWER_TOKENS)

log = logging.getLogger(__name__)


class _Servers(ABC):
    """vLLM servers of this machine that are started and stopped together."""

    def __init__(self, base_port: int, num_gpus: int, python: str) -> None:
        self.base_port = whole_number("base_port", base_port, 1, 65535)
        self.num_gpus = whole_number("num_gpus", num_gpus, 0, 65536 - base_port)
        self._python = check_text("python", python)
        self._fleet: Fleet | None = None
        self._changing = asyncio.Lock()

    async def start(self) -> None:
        """Start the servers and wait until they answer.

        Raises:
            ServingError: If a server does not start, with words of its log; if they run already.
            PlacementError: For a model that does not fit.
            BackendError: "Model loading failed".
        """
        async with self._changing:
            if self._fleet is not None:
                raise ServingError("the servers run already: stop() them first")
            await self._start()

    async def stop(self) -> None:
        """Stop the servers, if they run, after a start in progress."""
        async with self._changing:
            await self._stop()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *raised: object) -> None:
        await self.stop()

    @abstractmethod
    async def _start(self) -> None: ...

    async def _stop(self) -> None:
        fleet, self._fleet = self._fleet, None
        if fleet is not None:
            await asyncio.to_thread(fleet.close)

    def _running(self) -> Fleet:
        if self._fleet is None:
            raise ServingError("the servers do not run: await start() first")
        self._fleet.check()
        return self._fleet


class UnifiedScheduler(_Servers):
    """Several models behind vLLM servers of this machine, which share their requests.

    Each model adds a server at the next port from base_port on: on GPUs, or on the CPU if there are
    none. Models with the same weights share their servers. `async with` starts and stops all.
    """

    def __init__(
        self,
        base_port: int = 8001,
        num_gpus: int = 8,
        *,
        sharing: Literal["fair", "priority"] = "fair",
        python: str = sys.executable,
    ) -> None:
        """Create the scheduler without starting servers. Raises ValueError for wrong arguments.

        Args:
            base_port: First port.
            num_gpus: Limit on the GPUs in use.
            sharing: Equal shares of common servers, or shares by score.
            python: Interpreter of the environment with vLLM.
        """
        super().__init__(base_port, num_gpus, python)
        self.sharing = check_choice("sharing", sharing, ("fair", "priority"))
        self._models: dict[str, str] = {}
        self._specs: dict[str, ServerSpec] = {}
        self._clients: dict[VLLMClient, OpenAIModel] = {}

    def register_model(self, model_id: str, model_name: str | None = None) -> None:
        """Add a model before the start.

        Args:
            model_id: Id in requests.
            model_name: Local folder or hub name; by default MODERN_MODELS[model_id].

        Raises:
            ConfigError: For a used id or an unknown name, and while the servers run.
        """
        if self._fleet is not None:
            raise ConfigError("the servers run already: register models before start()")
        if check_text("model_id", model_id) in self._models:
            raise ConfigError(f"model_id must be new, got {model_id!r}")
        self._models[model_id] = check_text(
            f"model_name of {model_id} (known: {', '.join(MODERN_MODELS)})",
            MODERN_MODELS.get(model_id) if model_name is None else model_name,
        )

    async def submit_task(
        self, task: str, selected_models: Sequence[str] | None = None, **sampling: Any
    ) -> dict[str, LLMResponse]:
        """Return the answers of the selected models, or of all, to a prompt.

        Args:
            task: Prompt.
            selected_models: Ids of registered models.
            **sampling: temperature, top_p or max_new_tokens.

        Raises:
            ConfigError: For unknown models and settings.
            BackendError: If a model does not answer within MAX_WAIT seconds.
        """
        check_text("task", task)
        chosen: Any = list(self._models) if selected_models is None else selected_models
        known = isinstance(chosen, list | tuple) and all(one in [*self._models] for one in chosen)
        if not chosen or not known or len(set(chosen)) < len(chosen):
            raise ConfigError(
                f"selected_models must be different ones of {[*self._models]}, got {chosen!r}"
            )
        settings = sampling_with(SAMPLING, sampling)
        request = ChatRequest(({"role": "user", "content": task},), settings)
        fleet = self._running()
        answers = await asyncio.gather(*(self._answer(fleet, one, request) for one in chosen))
        return dict(zip(chosen, answers, strict=True))

    def set_score(self, model_id: str, score: float) -> None:
        """Set a model's score; with sharing by score, a higher one gives a larger share.

        Raises ServingError for equal shares and for a score that is not finite.
        """
        if check_text("model_id", model_id) not in self._models:
            raise ConfigError(f"model_id must be one of {list(self._models)}, got {model_id!r}")
        self._running().routers[self._models[model_id]].set_score(model_id, score)

    def get_system_statistics(self) -> dict[str, Any]:
        """Return port, url, GPUs and OwnerStats of each model, and ServerStats of each server."""
        routers = self._fleet.routers if self._fleet is not None else {}
        models: dict[str, dict[str, Any]] = {}
        for model_id, base in self._models.items():
            spec = self._specs.get(model_id) if routers else None
            models[model_id] = {
                "model_name": base,
                "port": spec and spec.port,
                "url": spec and spec.url,
                "gpus": spec and spec.gpus,
            }
            if routers and model_id in routers[base].owners:
                models[model_id] |= asdict(routers[base].owners[model_id])
        servers = {
            url: {"base": base, **asdict(own)}
            for base, router in routers.items()
            for url, own in router.servers.items()
        }
        return {"sharing": self.sharing, "models": models, "servers": servers}

    async def _start(self) -> None:
        if not self._models:
            raise ConfigError("no model is registered: register_model('qwen3')")
        self._clients.clear()
        self._fleet = await asyncio.to_thread(self._open)

    def _open(self) -> Fleet:
        # Servers of the same weights have consecutive ports.
        bases = list(dict.fromkeys(self._models.values()))
        owners = [one for base in bases for one, its in self._models.items() if its == base]
        with loading():
            folders = {base: folder_of(base) for base in bases}
        placements = place(len(owners), find_gpus()[: self.num_gpus])
        for number, (owner, placed) in enumerate(zip(owners, placements, strict=True)):
            self._specs[owner] = ServerSpec(
                model=str(folders[self._models[owner]]),
                served_name=self._models[owner],
                port=self.base_port + number,
                log_folder=logs_folder(),
                gpus=placed.gpus,
                memory_fraction=placed.memory_fraction,
                python=self._python,
            )
        return Fleet.managed([*self._specs.values()], sharing=self.sharing)

    async def _answer(self, fleet: Fleet, model_id: str, request: ChatRequest) -> LLMResponse:
        base, prompt = self._models[model_id], request.messages[-1]["content"]

        async def call(endpoint: VLLMClient) -> LLMResponse:
            if endpoint not in self._clients:
                self._clients[endpoint] = OpenAIModel(
                    base,
                    api_key="none",
                    base_url=f"{endpoint.url}/v1",
                    concurrency=CONCURRENCY,
                    retries=RetryPolicy(deadline=MAX_WAIT, unreachable=UNREACHABLE),
                )
            return LLMResponse(**vars(await self._clients[endpoint].answer(request)))

        cost = len(prompt) // CHARACTERS_PER_TOKEN + request.sampling.max_new_tokens
        task = RoutedTask(owner=model_id, cost=cost, prefix=prompt)
        return await background_loop.await_(fleet.routers[base].run(task, call))


def create_unified_scheduler(
    base_port: int = 8001, num_gpus: int = 8, **settings: Any
) -> UnifiedScheduler:
    """Create a UnifiedScheduler with further settings of its constructor."""
    return UnifiedScheduler(base_port, num_gpus, **settings)


def create_cooperative_scheduler(
    base_port: int = 8001, num_gpus: int = 8, **settings: Any
) -> UnifiedScheduler:
    """Create a scheduler with equal shares of common servers."""
    return UnifiedScheduler(base_port, num_gpus, sharing="fair", **settings)


def create_competitive_scheduler(
    base_port: int = 8001, num_gpus: int = 8, **settings: Any
) -> UnifiedScheduler:
    """Create a scheduler with shares of common servers by score (`set_score`)."""
    return UnifiedScheduler(base_port, num_gpus, sharing="priority", **settings)


class DistributedLoRAScheduler(_Servers):
    """One vLLM server per GPU, at ports from base_port on, each with the base and its adapters.

    The server of an adapter has the adapter's port. `manager.swap` and `manager.load` also load the
    new version on the server, and raise BackendError if the server refuses it.
    """

    def __init__(
        self,
        base_port: int = 8001,
        num_gpus: int = 1,
        *,
        base: str = LLMConfig.model_name,
        configs: Mapping[int, LoRAConfig] | None = None,
        manager: LoRAManager | None = None,
        python: str = sys.executable,
    ) -> None:
        """Create the scheduler without starting servers. Raises ValueError for wrong arguments.

        Args:
            base_port: First port.
            num_gpus: Number of servers; 0 is one server on the CPU.
            base: Local folder or hub name, without a manager.
            configs: Adapters without a manager; by default adapter i on GPU i.
            manager: Manager whose base and adapters are served; by default a new one on the CPU.
            python: Interpreter of the environment with vLLM.
        """
        super().__init__(base_port, num_gpus, python)
        if manager is not None and (not isinstance(manager, LoRAManager) or configs is not None):
            raise ConfigError(f"manager must be a LoRAManager without configs, got {manager!r}")
        self._ports = range(base_port, base_port + max(1, num_gpus))
        if manager is None:
            if configs is None:
                configs = {i: LoRAConfig(i, gpu_id=i, port=p) for i, p in enumerate(self._ports)}
            manager = LoRAManager(configs, base=base, device="cpu")
        self.manager = manager
        """Adapters and their weights."""
        self._configs = manager.configs
        for config in self._configs.values():
            if config.port not in self._ports or config.gpu_id != config.port - base_port:
                raise ConfigError(
                    f"{config.name}: port must be one of {[*self._ports]} and gpu_id its distance "
                    f"from {base_port}, got port {config.port} and gpu_id {config.gpu_id}"
                )
        self._gpus: dict[int, tuple[int, ...]] = {}
        self._folder: TemporaryDirectory[str] | None = None
        self._backends: dict[int, VLLMBackend] = {}
        self._publisher: ServedPublisher | None = None
        self._publishing = threading.Lock()

    def backend(self, lora_id: int) -> VLLMBackend:
        """Return the sampler of an adapter's server, for requests with `adapter="lora_0"`."""
        self._running()
        return self._backends[adapter_of(self._configs, lora_id).port]

    def get_system_status(self) -> dict[str, Any]:
        """Return url, model and state of each server, and port, GPU and version of each adapter."""
        servers, adapters = {}, {}
        if self._fleet is not None:
            servers = {
                port: {"url": url, "model": f"base-{port}", "up": own.up}
                for port in self._ports
                for url, own in self._fleet.routers[f"base-{port}"].servers.items()
            }
        for lora_id, config in self._configs.items():
            served = self._publisher and self._publisher.answering.get(config.name)
            adapters[lora_id] = {
                "port": config.port,
                "gpu_id": next(iter(self._gpus.get(config.port, ())), None),
                "version": served and served.version.version,
                "served_as": served and served.served_as,
            }
        return {"base": self.manager.base, "servers": servers, "adapters": adapters}

    async def _start(self) -> None:
        gpus = (await asyncio.to_thread(find_gpus))[: self.num_gpus]
        placements = dict(zip(self._ports, place(len(self._ports), gpus), strict=True))
        self._gpus = {port: placed.gpus for port, placed in placements.items()}
        if self.num_gpus > len(gpus):
            log.warning(
                "num_gpus is %d, %d are here, which servers share", self.num_gpus, len(gpus)
            )
        self._folder = TemporaryDirectory(prefix="core-srl-adapters-", ignore_cleanup_errors=True)
        try:
            backend = await asyncio.to_thread(lambda: self.manager.backend)  # Loads the base.
            dtype = str(backend.model.dtype).removeprefix("torch.")
            facts = replace(TokenFacts.of(backend), name=Path(self.manager.base).name)
            specs = [self._spec(port, placed, dtype) for port, placed in placements.items()]
            fleet = self._fleet = await asyncio.to_thread(Fleet.managed, specs)
            self._backends = {p: facts.backend(fleet, f"base-{p}") for p in self._ports}
            turn = ChatTurn("Round 1. What do you choose? " * PROBES)
            self._publisher = ServedPublisher(
                {one.name: self._backends[one.port] for one in self._configs.values()},
                fleet,
                self._write,
                folder=Path(self._folder.name),
                probe=backend.chat.prompts([turn])[0],
                dtype=dtype,
            )
            self.manager.follow(self._publish)
            for lora_id in self._configs:
                await asyncio.to_thread(self._publish, lora_id, 0)
        except BaseException:
            await self._stop()
            raise

    async def _stop(self) -> None:
        self.manager.unfollow(self._publish)
        await super()._stop()
        if self._folder is not None:
            self._folder.cleanup()
        self._publisher = None

    def _publish(self, lora_id: int, version: int) -> None:
        """Load the newest version of an adapter on its server, unless it answers already."""
        if lora_id not in self._configs:  # An adapter that was made after the start.
            return
        self._running()
        assert self._publisher is not None
        with self._publishing, self.manager.backend.lock:  # No version is swapped in between.
            newest = self.manager.get_lora_status()[lora_id]["version"]
            name, weights = self._configs[lora_id].name, self.manager.weights(lora_id)
            self._publisher.publish(name, newest, weights)

    def _write(self, name: str, weights: Any, probes: Any, folder: Path) -> Tensor:
        """Save an adapter; return log-probabilities after each probe."""
        [lora_id] = (number for number, own in self._configs.items() if own.name == name)
        self.manager.save(lora_id, folder)
        model = self.manager.backend.model
        tokens = torch.tensor([probes[-1]], device=model.device)
        with torch.no_grad(), evaluating(model):
            logits = model(tokens, adapter_names=[name], use_cache=False).logits
        after = logits[0, [len(probe) - 1 for probe in probes]].float()
        expected: Tensor = (after / PROBING.temperature).log_softmax(-1).cpu()
        return expected

    def _spec(self, port: int, placed: Placement, dtype: str) -> ServerSpec:
        adapters = [config for config in self._configs.values() if config.port == port]
        base = self.manager.base
        return ServerSpec(
            model=folder_for(base) or base,
            served_name=f"base-{port}",
            port=port,
            log_folder=logs_folder(),
            gpus=placed.gpus,
            memory_fraction=placed.memory_fraction,
            dtype=dtype,  # vLLM itself would round float32 to bfloat16.
            # Two versions of each adapter: one that answers, and the next or the one before.
            adapter_slots=2 * len(adapters) + 1 if adapters else 0,
            max_rank=max((config.rank for config in adapters), default=16),
            python=self._python,
        )


def create_distributed_lora_scheduler(
    base_port: int = 8001, num_gpus: int = 1, **settings: Any
) -> DistributedLoRAScheduler:
    """Create a DistributedLoRAScheduler with further settings of its constructor."""
    return DistributedLoRAScheduler(base_port, num_gpus, **settings)
