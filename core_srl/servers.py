"""Documented schedulers: vLLM servers of several models, and of one base with LoRA adapters."""

from __future__ import annotations

import asyncio
import logging
import shutil
import sys
import threading
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, Literal

import torch
from torch import Tensor

from core_srl.adapters import LoRAManager
from core_srl.errors import loading
from core_srl.llm_config import LLMConfig, LLMResponse, LoRAConfig, sampling_with
from core_srl.models import MODERN_MODELS
from srl_agents.errors import ServingError
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.chat_backend import ChatRequest
from srl_agents.llm.backends.huggingface.backend import evaluating
from srl_agents.llm.backends.huggingface.loading import folder_of
from srl_agents.llm.backends.openai import OpenAIModel
from srl_agents.llm.chat_format import ChatTurn
from srl_agents.llm.model_folders import folder_for
from srl_envs.validation import check_choice, whole_number
from srl_extensions.vllm.backend import VLLMBackend
from srl_extensions.vllm.client import VLLMClient
from srl_extensions.vllm.fleet import Fleet
from srl_extensions.vllm.models import token_facts
from srl_extensions.vllm.placement import find_gpus, place
from srl_extensions.vllm.publisher import PROBES, PROBING, ServedPublisher
from srl_extensions.vllm.routing import RoutedTask
from srl_extensions.vllm.server import ServerSpec, logs_folder
from srl_train.errors import ConfigError

log = logging.getLogger(__name__)


class _Servers(ABC):
    def __init__(self, base_port: int, num_gpus: int, python: str) -> None:
        self.base_port = whole_number("base_port", base_port, 1, 65535)
        self.num_gpus = whole_number("num_gpus", num_gpus, 0, 65536 - base_port)
        self._python = python
        self._fleet: Fleet | None = None

    async def start(self) -> None:
        """Start the servers and wait until they answer.

        Raises:
            ServingError: If a server does not start (then none runs), or the servers run already.
            BackendError: If a model or an adapter cannot be loaded.
            ConfigError: If a UnifiedScheduler has no model.
        """
        if self._fleet is not None:
            raise ServingError("the servers run already: stop() them first")
        try:
            await asyncio.to_thread(self._start)
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """Stop the servers, if they run."""
        fleet, self._fleet = self._fleet, None
        if fleet is not None:
            await asyncio.to_thread(fleet.close)

    @abstractmethod
    def _start(self) -> None: ...

    def _running(self) -> Fleet:
        if self._fleet is None:
            raise ServingError("the servers do not run: await start() first")
        self._fleet.check()
        return self._fleet


class UnifiedScheduler(_Servers):
    """Scheduler of requests to several models, each behind vLLM servers of this machine.

    Each model has a server, at one of consecutive ports, on a GPU or, without GPUs, on the CPU.
    Models with the same folder or hub name share all of their servers.

    Args:
        base_port: Port of the first server, 1 to 65535.
        num_gpus: Limit on the GPUs in use; 0 serves on the CPU.
        sharing: "fair" for equal shares of common servers, "priority" for shares by `set_score`.
        python: Interpreter of the environment with vLLM; by default the running one.

    Raises:
        EnvConfigError: An argument is invalid (a ValueError).
    """

    def __init__(
        self,
        base_port: int = 8001,
        num_gpus: int = 8,
        *,
        sharing: Literal["fair", "priority"] = "fair",
        python: str = sys.executable,
    ) -> None:
        super().__init__(base_port, num_gpus, python)
        self.sharing = check_choice("sharing", sharing, ("fair", "priority"))
        self._models: dict[str, str] = {}
        self._specs: dict[str, ServerSpec] = {}
        self._clients: dict[str, OpenAIModel] = {}

    def register_model(self, model_id: str, model_name: str | None = None) -> None:
        """Add a model, while the servers do not run.

        Args:
            model_id: New name of the model in this scheduler.
            model_name: Folder or hub name; None selects MODERN_MODELS[model_id].

        Raises:
            ConfigError: If the id is used, the name is missing, or the servers run.
        """
        name = MODERN_MODELS.get(model_id) if model_name is None else model_name
        if self._fleet is not None:
            raise ConfigError("the servers run already: register models before start()")
        if model_id in self._models:
            raise ConfigError(f"model_id must be new, got {model_id!r}")
        if name is None:
            known = ", ".join(MODERN_MODELS)
            raise ConfigError(f"model_name of {model_id} must be given (known: {known})")
        self._models[model_id] = name

    async def submit_task(
        self, task: str, selected_models: Sequence[str] | None = None, **sampling: Any
    ) -> dict[str, LLMResponse]:
        """Send a prompt to models concurrently, and return model id -> answer.

        Args:
            task: User message, the whole conversation.
            selected_models: Ids of the models that answer; None selects all.
            sampling: temperature (default 0.7), top_p (1) or max_new_tokens (2048).

        Raises:
            ConfigError: For unknown models, and unknown or wrong settings; PolicyError for top_k.
            BackendError: If a model does not answer; other answers are lost.
            ServingError: If the servers do not run, or one failed too often.
        """
        chosen = list(self._models if selected_models is None else selected_models)
        if unknown := [one for one in chosen if one not in self._models]:
            raise ConfigError(
                f"selected_models must be some of {list(self._models)}, got {unknown}"
            )
        settings = sampling_with(LLMConfig().sampling, sampling)
        request = ChatRequest(({"role": "user", "content": task},), settings)
        fleet = self._running()
        answers = await asyncio.gather(*(self._answer(fleet, one, request) for one in chosen))
        return dict(zip(chosen, answers, strict=True))

    def set_score(self, model_id: str, score: float) -> None:
        """Set a model's score, for its share of common servers until `stop`.

        Args:
            model_id: Registered id.
            score: Number from -10 to 10, at first 0; shares are in proportion to exp(score).

        Raises:
            ServingError: If `sharing` is "fair", the servers do not run, or the score is wrong.
            KeyError: For an unknown id.
        """
        if self.sharing == "fair":
            raise ServingError("sharing is 'fair', which has no scores: use sharing='priority'")
        self._running().routers[self._models[model_id]].set_score(model_id, score)

    def get_system_statistics(self) -> dict[str, Any]:
        """Return {"sharing", "models": id -> statistics}; no models unless the servers run.

        The statistics are model_name, port, url and gpus of the model's server. After the first
        task or score, also score (None if not set), done and tokens (both: number of
        successful requests). Raises ServingError if a server failed too often.
        """
        models = {}
        for model_id, spec in self._specs.items() if self._fleet is not None else ():
            own = self._running().routers[spec.served_name].owners.get(model_id)
            models[model_id] = {
                "model_name": spec.served_name,
                "port": spec.port,
                "url": spec.url,
                "gpus": spec.gpus,
                **(asdict(own) if own else {}),
            }
        return {"sharing": self.sharing, "models": models}

    def _start(self) -> None:
        if not self._models:
            raise ConfigError("no model is registered: register_model('qwen3')")
        # Servers of the same weights have consecutive ports.
        bases = list(dict.fromkeys(self._models.values()))
        owners = sorted(self._models, key=lambda one: bases.index(self._models[one]))
        with loading():
            folders = {base: folder_of(base) for base in bases}
        placements = place(len(owners), find_gpus()[: self.num_gpus])
        self._specs = {
            owner: ServerSpec(
                model=str(folders[self._models[owner]]),
                served_name=self._models[owner],
                port=self.base_port + number,
                log_folder=logs_folder(),
                gpus=placed.gpus,
                memory_fraction=placed.memory_fraction,
                python=self._python,
            )
            for number, (owner, placed) in enumerate(zip(owners, placements, strict=True))
        }
        self._fleet = Fleet.managed([*self._specs.values()])

    async def _answer(self, fleet: Fleet, model_id: str, request: ChatRequest) -> LLMResponse:
        base = self._models[model_id]

        async def call(endpoint: VLLMClient) -> LLMResponse:
            if endpoint.url not in self._clients:
                url = f"{endpoint.url}/v1"
                self._clients[endpoint.url] = OpenAIModel(base, api_key="none", base_url=url)
            return LLMResponse(**vars(await self._clients[endpoint.url].answer(request)))

        task = RoutedTask(owner=model_id)
        return await background_loop.await_(fleet.routers[base].run(task, call))


create_unified_scheduler = create_cooperative_scheduler = UnifiedScheduler


def create_competitive_scheduler(
    base_port: int = 8001, num_gpus: int = 8, *, python: str = sys.executable
) -> UnifiedScheduler:
    """Create a UnifiedScheduler with `sharing` "priority", which raises the same errors.

    Args:
        base_port: Port of the first server, 1 to 65535.
        num_gpus: Limit on the GPUs in use; 0 serves on the CPU.
        python: Interpreter of the environment with vLLM; by default the running one.
    """
    return UnifiedScheduler(base_port, num_gpus, sharing="priority", python=python)


class DistributedLoRAScheduler(_Servers):
    """One vLLM server per GPU, at ports from base_port on, each with the base and its adapters.

    The server of an adapter has the adapter's port. From `start` to `stop`, `manager.swap` also
    publishes the version. If this fails, `swap` raises BackendError or ServingError, and only the
    manager has the new version. Adapters made later are not served.

    Args:
        base_port: Port of the first server, 1 to 65535.
        num_gpus: Number of servers, which share GPUs or the CPU if there are fewer; 0 is one on
            the CPU.
        manager: Manager whose base and current adapters are served; by default a new one of the
            default base on the CPU, with one adapter per server.
        python: Interpreter of the environment with vLLM; by default the running one.

    Raises:
        EnvConfigError: An argument is invalid (a ValueError).
        ConfigError: An adapter's port is not base_port + gpu_id, or no server has it.
        BackendError: The base of the default manager cannot be loaded.
    """

    def __init__(
        self,
        base_port: int = 8001,
        num_gpus: int = 1,
        *,
        manager: LoRAManager | None = None,
        python: str = sys.executable,
    ) -> None:
        super().__init__(base_port, num_gpus, python)
        self._ports = range(base_port, base_port + max(1, num_gpus))
        if manager is None:
            numbered = enumerate(self._ports)
            configs = {i: LoRAConfig(lora_id=i, gpu_id=i, port=port) for i, port in numbered}
            manager = LoRAManager(configs, device="cpu")
        self.manager = manager
        self._configs = dict(manager.configs)
        for config in self._configs.values():
            if config.port not in self._ports or config.gpu_id != config.port - base_port:
                raise ConfigError(
                    f"{config.name}: port must be one of {[*self._ports]} and gpu_id its distance "
                    f"from {base_port}, got port {config.port} and gpu_id {config.gpu_id}"
                )
        self._specs: dict[int, ServerSpec] = {}
        self._backends: dict[int, VLLMBackend] = {}
        self._publisher: ServedPublisher | None = None
        self._publishing = threading.Lock()

    def backend(self, lora_id: int) -> VLLMBackend:
        """Return the sampler of an adapter's server, for requests with `adapter="lora_0"`.

        Raises KeyError for an unknown `lora_id`, and ServingError unless the servers run.
        """
        self._running()
        return self._backends[self._configs[lora_id].port]

    def get_system_status(self) -> dict[str, Any]:
        """Return "base", "servers" and "adapters".

        "servers" is port -> {"url", "model" (name there), "up"}, empty unless the servers
        run. "adapters" is lora_id -> {"port", "version" (served; None if there is none)}.
        Raises ServingError if a server failed too often.
        """
        servers, adapters = {}, {}
        for port, spec in self._specs.items() if self._fleet is not None else ():
            up = any(own.up for own in self._running().routers[spec.served_name].servers.values())
            servers[port] = {"url": spec.url, "model": spec.served_name, "up": up}
        for lora_id, config in self._configs.items():
            served = self._publisher and self._publisher.answering.get(config.name)
            version = served and served.version.version
            adapters[lora_id] = {"port": config.port, "version": version}
        return {"base": self.manager.base, "servers": servers, "adapters": adapters}

    async def stop(self) -> None:
        """Stop the servers, if any, delete adapter files, and clear `manager.on_version`."""
        self.manager.on_version = lambda lora_id: None
        await super().stop()
        if self._publisher is not None:
            shutil.rmtree(self._publisher.folder, ignore_errors=True)
            self._publisher = None

    def _start(self) -> None:
        gpus = find_gpus()[: self.num_gpus]
        if self.num_gpus > len(gpus):
            log.warning(
                "num_gpus is %d, %d are here, which servers share", self.num_gpus, len(gpus)
            )
        base, backend = self.manager.base, self.manager.backend
        dtype = str(backend.model.dtype).removeprefix("torch.")
        for port, placed in zip(self._ports, place(len(self._ports), gpus), strict=True):
            ranks = [own.rank for own in self._configs.values() if own.port == port]
            self._specs[port] = ServerSpec(
                model=folder_for(base) or base,
                served_name=f"base-{port}",
                port=port,
                log_folder=logs_folder(),
                gpus=placed.gpus,
                memory_fraction=placed.memory_fraction,
                dtype=dtype,  # vLLM itself would round float32 to bfloat16.
                # Two versions of each adapter: one that answers, and the next or the one before.
                adapter_slots=2 * len(ranks) + 1 if ranks else 0,
                max_rank=max(ranks, default=16),
                python=self._python,
            )
        self._fleet = Fleet.managed([*self._specs.values()])
        facts = token_facts(backend) | {"name": Path(base).name}
        self._backends = {
            port: VLLMBackend(self._fleet.routers[f"base-{port}"], base=f"base-{port}", **facts)
            for port in self._ports
        }
        turn = ChatTurn("Round 1. What do you choose? " * PROBES)
        self._publisher = ServedPublisher(
            {one.name: self._backends[one.port] for one in self._configs.values()},
            self._fleet,
            self._write,
            folder=Path(mkdtemp(prefix="core-srl-adapters-")),
            probe=backend.chat.prompts([turn])[0],
            dtype=dtype,
        )
        self.manager.on_version = self._publish
        for lora_id in self._configs:
            self._publish(lora_id)

    def _publish(self, lora_id: int) -> None:
        if lora_id not in self._configs:  # An adapter that was made after this scheduler.
            return
        self._running()
        assert self._publisher is not None
        with self._publishing, self.manager.backend.lock:  # No version is swapped in between.
            status, weights = self.manager.get_lora_status(), self.manager.weights(lora_id)
            name, version = status[lora_id]["name"], status[lora_id]["version"]
            self._publisher.publish(name, version, weights)

    def _write(self, name: str, weights: Any, probes: Any, folder: Path) -> Tensor:
        self.manager.save(int(name.removeprefix("lora_")), folder)
        model = self.manager.backend.model
        tokens = torch.tensor([probes[-1]], device=model.device)
        with torch.no_grad(), evaluating(model):
            logits = model(tokens, adapter_names=[name], use_cache=False).logits
        after = logits[0, [len(probe) - 1 for probe in probes]].float()
        expected: Tensor = (after / PROBING.temperature).log_softmax(-1).cpu()
        return expected


create_distributed_lora_scheduler = DistributedLoRAScheduler
