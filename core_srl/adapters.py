"""LoRA adapters on one shared base, which can be replaced while they are sampled."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from peft import PeftModel, get_peft_model

from core_srl.llm_config import DEFAULT_MODEL, LoRAConfig
from core_srl.shared_weights import dense_like, load_model
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.huggingface.loading import no_bars
from srl_train.adapters import copy_weights, weights_of
from srl_train.errors import ConfigError
from srl_train.learners.lora import check_targets, lora_config
from srl_train.learners.trl_stepped import isolated_randomness
from srl_train.learners.upstream_warnings import quiet_upstream
from srl_train.run_files import refuse_taken


class LoRAManager:
    """Adapters on one base model in memory, whose weights are replaced version by version.

    `backend` samples with any of them: `TextPolicy(manager.backend, view, adapter="lora_1")`. Each
    answer is sampled from one version, which `Completion.model` names. An adapter answers as the
    base does until its first `swap`. All methods may be called from several threads.

    Args:
        configs: Settings of the adapters. The keys are ignored: `lora_id` numbers an adapter.
        base: Folder or hub name of a whole model, or "tiny".
        device: Torch device; "auto" selects a GPU if there is one.

    Raises:
        BackendError: "Model loading failed", "GPU memory insufficient".
        ConfigError: The base is an adapter or lacks a target module, or a lora_id repeats.
    """

    def __init__(
        self, configs: Mapping[int, LoRAConfig], *, base: str = DEFAULT_MODEL, device: str = "auto"
    ) -> None:
        self.base = base
        self.backend: HuggingFaceBackend = load_model(base, device)
        """Sampler with all adapters."""
        if isinstance(self.backend.model, PeftModel):
            raise ConfigError(f"base must be a whole model, got the adapter {base}")
        self.configs: dict[int, LoRAConfig] = {}
        """lora_id -> settings of the adapter."""
        self.on_version: Callable[[int], None] = lambda lora_id: None
        """Function that `swap` calls with the lora_id after the replacement."""
        self._versions: dict[int, int] = {}
        self._lock = threading.RLock()
        for config in configs.values():
            self.make(config)

    def make(self, config: LoRAConfig) -> None:
        """Add an adapter, version 0, that answers as the base does.

        The first adapter replaces the object `backend`. Raises ConfigError for a lora_id in use or
        a target module that the base lacks.
        """
        with self._lock, self.backend.lock:
            if config.lora_id in self.configs:
                raise ConfigError(f"lora_id must be new, got {config.lora_id}")
            model, settings = self.backend.model, lora_config(config)
            check_targets(model.get_base_model() if self.configs else model, config.target_modules)
            with isolated_randomness(0), quiet_upstream():
                if self.configs:
                    model.add_adapter(config.name, settings)
                else:
                    model = get_peft_model(model, settings, adapter_name=config.name)
                    self.backend = self.backend.with_model(model)
            model.requires_grad_(False)
            model.eval()
            self._publish(config, 0)
            self.configs[config.lora_id] = config

    def swap(self, lora_id: int, weights: Mapping[str, torch.Tensor]) -> int:
        """Replace all weights of an adapter, call `on_version`, and return the new version.

        `weights` has the names and shapes of `weights()`. Raises, without a change, KeyError for an
        unknown lora_id and ConfigError for other names, other shapes and infinite or NaN numbers.
        """
        config = self.configs[lora_id]
        with self._lock, self.backend.lock:
            held = weights_of(self.backend.model, config.name)
            if set(weights) != set(held):
                raise ConfigError(f"weights of {config.name} must have the names of weights()")
            try:
                new = {name: dense_like(weights[name], own) for name, own in held.items()}
            except ValueError as error:
                raise ConfigError(f"weights of {config.name}: a tensor {error}") from error
            copy_weights(self.backend.model, config.name, new)
            version = self._versions[lora_id] + 1
            self._publish(config, version)
        self.on_version(lora_id)
        return version

    def weights(self, lora_id: int) -> dict[str, torch.Tensor]:
        """Return copies of an adapter's weights, by PEFT name. Raises KeyError if it is unknown."""
        with self.backend.lock:
            held = weights_of(self.backend.model, self.configs[lora_id].name)
            return {name: tensor.detach().clone() for name, tensor in held.items()}

    def save(self, lora_id: int, folder: str | Path) -> int:
        """Write an adapter as a PEFT folder, atomically; return the version of its weights.

        Creates parent folders. Raises KeyError for an unknown lora_id, and ConfigError unless the
        folder is empty or missing.
        """
        name, folder = self.configs[lora_id].name, Path(folder)
        refuse_taken(folder)
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder.parent) as partial:
            with self.backend.lock, no_bars(), quiet_upstream():
                version = self._versions[lora_id]
                self.backend.model.save_pretrained(
                    partial, selected_adapters=[name], save_embedding_layers=False
                )
            os.replace(Path(partial, name), folder)
        return version

    def get_lora_status(self) -> dict[int, dict[str, Any]]:
        """Return lora_id -> {"name", "version" (0 at first), "config" (LoRAConfig)}."""
        return {
            lora_id: {"name": config.name, "version": self._versions[lora_id], "config": config}
            for lora_id, config in self.configs.items()
        }

    def _publish(self, config: LoRAConfig, version: int) -> None:
        with self.backend.lock:
            self.backend.adapter_versions[config.name] = version
        self._versions[config.lora_id] = version


create_lora_manager = LoRAManager
