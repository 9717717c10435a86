"""Servers of one base and its LoRA adapters, into which every new version is swapped."""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
import sys
from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from peft.utils import load_peft_weights
from torch import Tensor
from transformers import AutoConfig, AutoTokenizer, GenerationConfig

from core_srl.adapters.lora_adapters import LoRAManager
from core_srl.adapters.lora_config import LoRAConfig, adapters_by_id
from core_srl.arguments import path, text, whole
from core_srl.managers.llm_config import LLMConfig
from srl_agents.episode import ModelVersion
from srl_agents.errors import BackendError, ServingError
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.huggingface.backend import evaluating
from srl_agents.llm.backends.huggingface.loading import not_loaded, reachable_source_of
from srl_agents.llm.chat_format import Turn
from srl_agents.llm.model_folders import folder_for
from srl_extensions.vllm.backend import VLLMBackend
from srl_extensions.vllm.command import ServerSpec
from srl_extensions.vllm.fleet import Fleet
from srl_extensions.vllm.models import TokenFacts
from srl_extensions.vllm.placement import find_gpus
from srl_extensions.vllm.publisher import (
    OTHER_TOLERANCE,
    PROBES,
    PROBING,
    TOLERANCES,
    HeldWeights,
    Publication,
)
from srl_extensions.vllm.server import logs_folder
from srl_train.errors import ConfigError
from srl_train.loading import weights_digest

CONCURRENCY = 64
"""Calls under way at one server at most."""
DEADLINE = 600.0
"""Seconds until a request fails, restarts of its server included."""
GPU_MEMORY = 0.9
"""Of a GPU, for all servers on it."""
PROBED = "Round 1. What do you choose? "
SLOTS_PER_ADAPTER = 2
"""The version that answers, and the next one or the last one whose answers are under way."""

log = logging.getLogger(__name__)


class DistributedLoRAScheduler:
    """One vLLM server per GPU, at ports from base_port on, each with the base and its adapters.

    An adapter is on the server of its port. Those of a `manager` are served from the start, and
    every new version of theirs is swapped in; others are swapped in by `publish`. An adapter that
    never was published has no answers.
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
        """Nothing starts yet. `num_gpus` 0 serves on the CPU.

        With a `manager` its base and its adapters are served, and `base` and `configs` left out;
        with neither, adapter i is on GPU i. `python` is the interpreter that vLLM is installed for.
        Raises ConfigError.
        """
        whole("base_port", base_port, 1, 65535)
        whole("num_gpus", num_gpus, 0, 65536 - base_port)
        text("base", base)
        text("python", python)
        if manager is not None and not isinstance(manager, LoRAManager):
            raise ConfigError(f"manager is {manager!r}: give a LoRAManager")
        if manager is not None and configs is not None:
            raise ConfigError("configs are given beside a manager, which has its own: leave it out")
        ports = range(base_port, base_port + max(1, num_gpus))
        if configs is not None:
            configs = adapters_by_id(configs)
        else:
            configs = manager.configs if manager is not None else {
                i: LoRAConfig(lora_id=i, gpu_id=i, port=port) for i, port in enumerate(ports)
            }  # fmt: skip
        for config in configs.values():
            if config.port not in ports or config.gpu_id != config.port - base_port:
                raise ConfigError(
                    f"{config.name} has port {config.port} and gpu_id {config.gpu_id}: base_port "
                    f"{base_port} has gpu_id 0, and there are {len(ports)} such pairs"
                )
        self.base = manager.base if manager is not None else base
        self._num_gpus, self._ports, self._python = num_gpus, ports, python
        self._manager, self._configs = manager, dict(configs)
        self._gpus: list[int] = []
        """Of each server, in order; none on the CPU."""
        self._fleet: Fleet | None = None
        self._folder: TemporaryDirectory[str] | None = None
        self._backends: dict[int, VLLMBackend] = {}
        self._publications: HeldWeights | None = None
        self._publishing = {lora_id: asyncio.Lock() for lora_id in configs}
        self._following: list[Future[Any]] = []
        self._turning = asyncio.Lock()
        """Held while the servers are started or ended."""

    async def start(self) -> None:
        """Start the servers, wait until they answer, and swap in what the manager has.

        Where there are fewer GPUs than asked for, servers share them, or run on the CPU, and a line
        says so. Raises ServingError where a server does not come up, with its log's words, and
        where they run already.
        """
        async with self._turning:
            if self._fleet is not None:
                raise ServingError("the servers run already: stop() them first")
            await self._start()

    async def _start(self) -> None:
        gpus = await asyncio.to_thread(find_gpus)
        self._gpus = [gpus[i % len(gpus)].index for i in range(self._num_gpus)] if gpus else []
        if self._num_gpus > len(gpus):
            where = "share them" if gpus else "run on the CPU"
            log.warning("num_gpus is %d, %d are here: servers %s", self._num_gpus, len(gpus), where)
        self._folder = TemporaryDirectory(prefix="core-srl-adapters-", ignore_cleanup_errors=True)
        try:
            facts, dtype = await asyncio.to_thread(self._reading)
            specs = [
                self._spec(port, tuple(self._gpus[i : i + 1]), dtype)
                for i, port in enumerate(self._ports)
            ]
            self._fleet = await asyncio.to_thread(
                Fleet.managed, specs, concurrency=CONCURRENCY, deadline=DEADLINE
            )
            self._backends = {
                port: facts.backend(self._fleet, self._served_name(port)) for port in self._ports
            }
            if self._configs:
                own = {
                    config.name: self._backends[config.port] for config in self._configs.values()
                }
                self._publications = HeldWeights(
                    own,
                    self._fleet,
                    probe=_probe(next(iter(own.values()))),
                    tolerance=TOLERANCES.get(dtype, OTHER_TOLERANCE),
                    deadline=DEADLINE,
                    keep=0,
                )
            if self._manager is not None:
                for lora_id in self._configs:
                    await background_loop.await_(self._catch_up(lora_id))
                self._manager.follow(self._told)
        except BaseException:
            await self._stop()
            raise

    async def stop(self) -> None:
        """End the servers; versions that are being swapped in are given up.

        Where they just start, that is waited for. Raises what could not be swapped in before.
        """
        async with self._turning:
            await self._stop()

    async def _stop(self) -> None:
        fleet, self._fleet = self._fleet, None
        if self._manager is not None:
            self._manager.unfollow(self._told)
        for one in self._following:
            one.cancel()
        if fleet is not None:
            await asyncio.to_thread(fleet.close)
        if self._folder is not None:
            self._folder.cleanup()
        self._publications = None
        self._backends.clear()
        self.check()

    def check(self) -> None:
        """Raise what a server died of too often, and what could not be swapped in."""
        if self._fleet is not None:
            self._fleet.check()
        for done in [one for one in self._following if one.done()]:
            self._following.remove(done)
            if not done.cancelled():
                done.result()

    async def publish(self, lora_id: int, folder: str | Path, version: int | None = None) -> int:
        """Swap in the PEFT adapter of a folder, which is copied; returns its version.

        Requests under way end with the version before. `version` is one more than that where it is
        not given. Raises BackendError, and that version goes on answering, where the server does
        not take it. What the server makes of it is not compared with anything: of a manager's
        adapters it is.
        """

        async def published() -> int:
            async with self._publishing[self._of(lora_id).lora_id]:
                given = Path(path("folder", folder))
                if version is not None:
                    whole("version", version, 0)
                return await self._publish(lora_id, given, version, None)

        return await background_loop.await_(published())

    def backend(self, lora_id: int) -> VLLMBackend:
        """What samples from the server of an adapter, with `adapter="lora_0"` and the like:
        `TextPolicy(scheduler.backend(0), view, adapter="lora_0")`."""
        self._running()
        return self._backends[self._of(lora_id).port]

    def get_system_status(self) -> dict[str, Any]:
        """The servers, with what is asked of them and how often they were restarted; the
        adapters, with port, GPU, version and the name that requests ask for."""
        servers = {}
        if self._fleet is not None:
            servers = {
                port: {"url": url, "model": self._served_name(port), "up": own.up}
                for port in self._ports
                for url, own in self._fleet.routers[self._served_name(port)].servers.items()
            }
        adapters = {}
        for lora_id, config in self._configs.items():
            served = self._current(config)
            adapters[lora_id] = {
                "port": config.port,
                "gpu_id": self._gpus[config.gpu_id] if self._gpus else None,
                "version": served and served.version.version,
                "served_as": served and served.served_as,
            }
        return {"base": self.base, "servers": servers, "adapters": adapters}

    async def _publish(
        self, lora_id: int, folder: Path, version: int | None, expected: Tensor | None
    ) -> int:
        config, backend = self._of(lora_id), self.backend(lora_id)
        assert self._publications is not None and self._folder is not None
        if version is None:
            former = self._current(config)
            version = 0 if former is None else int(former.version.version) + 1
        name = f"{config.name}@{version}.{secrets.token_hex(4)}"  # never used again
        own = Path(self._folder.name, name)
        try:
            await asyncio.to_thread(shutil.copytree, folder, own)
            digest = weights_digest(load_peft_weights(str(own), device="cpu"))
        except Exception as error:  # PEFT raises errors of any class for damaged files
            raise BackendError(f"cannot read the adapter {str(folder)!r}: {error}") from error
        made = ModelVersion(backend.name, version, config.name, digest)
        await self._publications.publish(config.name, Publication(made, name, own, expected))
        return version

    def _current(self, config: LoRAConfig) -> Publication | None:
        return None if self._publications is None else self._publications.current(config.name)

    def _told(self, lora_id: int, version: int) -> None:
        if lora_id in self._configs:
            self._following.append(background_loop.submit(self._catch_up(lora_id)))

    async def _catch_up(self, lora_id: int) -> None:
        """Swap in the manager's newest version of an adapter, unless it is served already."""
        assert self._manager is not None and self._folder is not None
        async with self._publishing[lora_id]:
            status = self._manager.get_lora_status()[lora_id]
            served = self._current(self._configs[lora_id])
            if served is not None and int(served.version.version) >= status["version"]:
                return
            folder = Path(self._folder.name, f"saved.{secrets.token_hex(4)}")
            version, expected = await asyncio.to_thread(self._saved, lora_id, folder)
            try:
                await self._publish(lora_id, folder, version, expected)
            except BackendError as error:
                log.error("%s: version %d was not swapped in: %s", status["name"], version, error)
                raise
            finally:
                shutil.rmtree(folder, ignore_errors=True)

    def _saved(self, lora_id: int, folder: Path) -> tuple[int, Tensor]:
        """Save the manager's newest version; returns it, and its log-probabilities (K, vocabulary)
        of what comes after each probe."""
        assert self._manager is not None and self._publications is not None
        held, probes = self._manager.backend, self._publications.probes
        with held.lock:  # no other version is swapped in between
            version = self._manager.save(lora_id, folder)
            tokens = torch.tensor([probes[-1]], device=held.model.device)
            with torch.no_grad(), evaluating(held.model):
                logits = held.model(
                    tokens, adapter_names=[self._configs[lora_id].name], use_cache=False
                ).logits
        after = logits[0, [len(probe) - 1 for probe in probes]].float()
        return version, (after / PROBING.temperature).log_softmax(-1).cpu()

    def _spec(self, port: int, gpus: tuple[int, ...], dtype: str) -> ServerSpec:
        own = [config for config in self._configs.values() if config.port == port]
        sharing = max([1, *map(self._gpus.count, gpus)])
        return ServerSpec(
            model=folder_for(self.base) or self.base,
            served_name=self._served_name(port),
            port=port,
            log_folder=logs_folder(),
            gpus=gpus,
            memory_fraction=GPU_MEMORY / sharing if sharing > 1 else None,
            dtype=dtype,  # by itself vLLM rounds float32 to bfloat16
            adapter_slots=SLOTS_PER_ADAPTER * len(own) + 1 if own else 0,
            max_rank=max((config.rank for config in own), default=16),
            python=self._python,
        )

    def _served_name(self, port: int) -> str:
        return f"base-{port}"

    def _reading(self) -> tuple[TokenFacts, str]:
        """What is known of the base, and the type that its weights have."""
        if self._manager is None:
            return _read(self.base)
        held = self._manager.backend
        named = replace(TokenFacts.of(held), name=Path(self.base).name)
        return named, str(held.model.dtype).removeprefix("torch.")

    def _running(self) -> Fleet:
        if self._fleet is None:
            raise ServingError("the servers do not run: await start() first")
        return self._fleet

    def _of(self, lora_id: int) -> LoRAConfig:
        if type(lora_id) is not int or lora_id not in self._configs:
            raise ConfigError(f"there is no adapter {lora_id!r}: there is {list(self._configs)}")
        return self._configs[lora_id]


def _read(base: str) -> tuple[TokenFacts, str]:
    """Of a model's folder or hub name, without its weights."""
    try:
        source, revised = reachable_source_of(base)
        tokenizer = AutoTokenizer.from_pretrained(source, trust_remote_code=False, **revised)
        config = AutoConfig.from_pretrained(source, trust_remote_code=False, **revised)
    except (BackendError, OSError, ValueError) as error:
        raise BackendError(f"Model loading failed: {not_loaded(base, error)}") from error
    try:
        generation = GenerationConfig.from_pretrained(source, trust_remote_code=False, **revised)
        stops = generation.eos_token_id
    except OSError:  # many models come without one
        stops = None
    text = config.get_text_config()
    facts = TokenFacts(
        Path(base).name,
        tokenizer,
        getattr(text, "max_position_embeddings", None),
        text.vocab_size,
        frozenset(stops if isinstance(stops, list) else () if stops is None else (stops,)),
    )
    return facts, str(config.dtype or "auto").removeprefix("torch.")


def _probe(backend: VLLMBackend) -> list[int]:
    """Token ids that every new version is compared on: any conversation will do."""
    return list(backend.chat.prompts([Turn(PROBED * PROBES)])[0])


def create_distributed_lora_scheduler(
    base_port: int = 8001, num_gpus: int = 1, **settings: Any
) -> DistributedLoRAScheduler:
    """Servers of a base and its adapters; `settings` are those of DistributedLoRAScheduler."""
    return DistributedLoRAScheduler(base_port, num_gpus, **settings)
