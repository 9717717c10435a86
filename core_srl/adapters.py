"""LoRA adapters on one shared base, which can be replaced while they are sampled."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch
from peft import PeftModel, get_peft_model

from core_srl.llm_config import LLMConfig, LoRAConfig, check_text
from core_srl.shared_weights import dense_like, load_model
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.huggingface.loading import no_bars
from srl_train.adapters import put, weights_for, weights_of
from srl_train.errors import ConfigError
from srl_train.learners.lora import check_targets, lora_config
from srl_train.learners.trl_stepped import isolated_randomness
from srl_train.learners.upstream_warnings import quiet_upstream
from srl_train.loading import InProcessPublisher
from srl_train.run_files import asked_for, refuse_taken

OnVersion = Callable[[int, int], None]
"""Callback with (lora_id, version) of new weights."""


class LoRAManager:
    """Adapters on one base in memory, each with weights of numbered versions.

    `backend` samples with any of them: `TextPolicy(manager.backend, view, adapter="lora_1")`. An
    answer has one version, which `Completion.model` names, also if another thread replaces it.
    """

    def __init__(
        self,
        configs: Mapping[int, LoRAConfig],
        *,
        base: str = LLMConfig.model_name,
        device: str = "auto",
    ) -> None:
        """Create the manager; the base is loaded at the first use of an adapter.

        Args:
            configs: Adapters by their numbers, with equal first weights (B is zero).
            base: Local folder or hub name.
            device: 'auto' or a torch device.
        """
        self.base, self._device = check_text("base", base), check_text("device", device)
        self._configs: dict[int, LoRAConfig] = {}
        self._versions: dict[int, int] = {}
        self._backend: HuggingFaceBackend | None = None
        self._lock = threading.RLock()
        self._followers: list[OnVersion] = []
        for config in adapters_by_id(configs).values():
            self.make(config)

    @property
    def configs(self) -> dict[int, LoRAConfig]:
        """Adapters by their numbers."""
        return dict(self._configs)

    @property
    def backend(self) -> HuggingFaceBackend:
        """Sampler with all adapters, loaded at the first use.

        Raises BackendError ("Model loading failed", "GPU memory insufficient"), and ConfigError
        without adapters.
        """
        with self._lock:
            if self._backend is None:
                if not self._configs:
                    raise ConfigError("there is no adapter yet: make(LoRAConfig(lora_id=0))")
                backend = load_model(self.base, self._device)
                if isinstance(backend.model, PeftModel):
                    raise ConfigError(f"base must be a whole model, got the adapter {self.base}")
                model = backend.model
                for config in self._configs.values():
                    model = self._with_adapter(model, config)
                self._backend = backend.with_model(model)
                for lora_id in self._configs:
                    self._publish(lora_id, 0)
            return self._backend

    def make(self, config: LoRAConfig) -> None:
        """Add an adapter. Raises ConfigError for a used number or wrong target modules."""
        if not isinstance(config, LoRAConfig):
            raise ConfigError(f"config must be a LoRAConfig, got {config!r}")
        with self._lock:
            if config.lora_id in self._configs:
                raise ConfigError(f"lora_id {config.lora_id} is used already: load its weights")
            if self._backend is not None:
                with self._backend.lock:
                    self._with_adapter(self._backend.model, config)
            self._configs[config.lora_id], self._versions[config.lora_id] = config, 0
            if self._backend is not None:
                self._publish(config.lora_id, 0)

    def load(self, lora_id: int, folder: str | Path) -> int:
        """Load weights from a PEFT folder or hub name; return their version.

        Raises BackendError for an unreadable adapter, and ConfigError for other settings.
        """
        name, source = self._of(lora_id).name, path_of("folder", folder)
        weights = weights_for(self.backend.model, source, name, f"the LoRAConfig of {name}")
        return self.swap(lora_id, weights)

    def swap(self, lora_id: int, weights: Mapping[str, torch.Tensor]) -> int:
        """Replace all weights of an adapter, named as in `weights`; return their version.

        Raises ConfigError, and changes nothing, for other names or shapes and for numbers that are
        not finite.
        """
        config, backend = self._of(lora_id), self.backend
        with self._lock, backend.lock:
            held = weights_of(backend.model, config.name)
            if not isinstance(weights, Mapping) or set(weights) != set(held):
                raise ConfigError(f"weights of {config.name} must have the names of weights()")
            try:
                new = {name: dense_like(weights[name], own) for name, own in held.items()}
            except ValueError as error:
                raise ConfigError(f"weights of {config.name}: one {error}") from error
            put(backend.model, config.name, new)
            version = self._versions[lora_id] + 1
            self._versions[lora_id] = version
            self._publish(lora_id, version)
        with ExitStack() as calls:  # Every follower is called, also if one raises.
            for follower in reversed(self._followers):
                calls.callback(follower, lora_id, version)
        return version

    def weights(self, lora_id: int) -> dict[str, torch.Tensor]:
        """Return copies of an adapter's weights, by their names in PEFT folders."""
        config, backend = self._of(lora_id), self.backend
        with backend.lock:
            held = weights_of(backend.model, config.name)
            return {name: tensor.detach().clone() for name, tensor in held.items()}

    def save(self, lora_id: int, folder: str | Path) -> int:
        """Write an adapter as a PEFT folder, atomically; return the version of its weights.

        Raises ConfigError for a folder with files or that cannot be written.
        """
        config, backend = self._of(lora_id), self.backend
        folder = Path(path_of("folder", folder))
        refuse_taken(folder)
        with asked_for("folder", folder):
            folder.parent.mkdir(parents=True, exist_ok=True)
            partial = Path(tempfile.mkdtemp(prefix=f".{folder.name}.", dir=folder.parent))
        try:
            with backend.lock, no_bars(), quiet_upstream():
                version = self._versions[lora_id]
                backend.model.save_pretrained(
                    partial, selected_adapters=[config.name], save_embedding_layers=False
                )
            os.replace(partial / config.name, folder)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return version

    def get_lora_status(self) -> dict[int, dict[str, Any]]:
        """Return name, version, digest (None before the first use) and config of each adapter."""
        digests = {} if self._backend is None else self._backend.digests
        return {
            lora_id: {
                "name": config.name,
                "version": self._versions[lora_id],
                "digest": digests.get(config.name),
                "config": config,
            }
            for lora_id, config in list(self._configs.items())
        }

    def follow(self, follower: OnVersion) -> None:
        """Call `follower` for every new version, in the thread that swaps the weights."""
        self._followers.append(follower)

    def unfollow(self, follower: OnVersion) -> None:
        """Stop calling a follower."""
        if follower in self._followers:
            self._followers.remove(follower)

    def _of(self, lora_id: int) -> LoRAConfig:
        return adapter_of(self._configs, lora_id)

    def _with_adapter(self, model: Any, config: LoRAConfig) -> PeftModel:
        """Return the model with one more adapter: a new PeftModel, or the same one."""
        inner = model.get_base_model() if isinstance(model, PeftModel) else model
        try:
            check_targets(inner, config.adapter.target_modules)
        except ConfigError as error:
            text = str(error).replace("models.adapters.", f"{config.name}: ")
            raise ConfigError(text) from error
        settings = lora_config(config.adapter)
        with isolated_randomness(0), quiet_upstream():
            if isinstance(model, PeftModel):
                model.add_adapter(config.name, settings)
            else:
                model = get_peft_model(model, settings, adapter_name=config.name)
        model.requires_grad_(False)
        return model.eval()

    def _publish(self, lora_id: int, version: int) -> None:
        assert self._backend is not None
        name = self._configs[lora_id].name
        publisher = InProcessPublisher({name: self._backend}, {}, frozenset({name}))
        publisher.publish(name, version, weights_of(self._backend.model, name))


def create_lora_manager(
    configs: Mapping[int, LoRAConfig], *, base: str = LLMConfig.model_name, device: str = "auto"
) -> LoRAManager:
    """Create a manager of adapters on one shared base."""
    return LoRAManager(configs, base=base, device=device)


def adapters_by_id(configs: Any) -> dict[int, LoRAConfig]:
    """Return the adapters by their numbers. Raises ConfigError for another mapping."""
    if not isinstance(configs, Mapping):
        raise ConfigError(f"configs must be a mapping of numbers to LoRAConfigs, got {configs!r}")
    for lora_id, config in configs.items():
        if not isinstance(config, LoRAConfig) or config.lora_id != lora_id:
            raise ConfigError(
                f"configs[{lora_id!r}] must be a LoRAConfig with this lora_id, got {config!r}"
            )
    return dict(configs)


def adapter_of(configs: Mapping[int, LoRAConfig], lora_id: Any) -> LoRAConfig:
    """Return the adapter of a number. Raises ConfigError for an unknown one."""
    if type(lora_id) is not int or lora_id not in configs:
        raise ConfigError(f"lora_id must be one of {list(configs)}, got {lora_id!r}")
    return configs[lora_id]


def path_of(name: str, value: Any) -> str:
    """Return a path or hub name as text. Raises ConfigError for other values."""
    if not isinstance(value, str | os.PathLike) or not str(value) or "\x00" in str(value):
        raise ConfigError(f"{name} must be a path, got {value!r}")
    return os.fspath(value)
