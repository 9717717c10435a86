"""LoRA adapters on one shared base: made, swapped and saved while they answer."""

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

from core_srl.adapters.lora_config import LoRAConfig, adapters_by_id
from core_srl.arguments import path, text, whole
from core_srl.managers.llm_config import LLMConfig
from core_srl.managers.shared_weights import dense_like, opened
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.huggingface.loading import no_bars
from srl_train.checkpoints.adapter_folders import put, weights_for, weights_of
from srl_train.errors import ConfigError
from srl_train.learners.lora import check_targets, lora_config
from srl_train.learners.trl_stepped import isolated_randomness
from srl_train.learners.upstream_warnings import quiet_upstream
from srl_train.loading import InProcessPublisher
from srl_train.run_files import asked_for, refuse_taken

FollowVersions = Callable[[int, int], None]
"""Told (lora_id, version) whenever an adapter has new weights."""


class LoRAManager:
    """Adapters on one base that is held once, each with weights of numbered versions.

    `backend` samples with any of them: `TextPolicy(manager.backend, view, adapter="lora_1")`. What
    it answers is from one version, whichever thread swaps another in; `Completion.model` names it.
    """

    def __init__(
        self,
        configs: Mapping[int, LoRAConfig],
        *,
        base: str = LLMConfig.model_name,
        device: str = "auto",
        seed: int = 0,
    ) -> None:
        """`configs` has the adapters by their numbers; further ones are made by `make`.

        `base` is a local folder or hub name, loaded when the adapters are first used. All adapters
        begin alike (A drawn from `seed`, B zero), at version 0. Raises ConfigError.
        """
        self.base = text("base", base)
        self._device, self._seed = text("device", device), whole("seed", seed, 0)
        self._configs: dict[int, LoRAConfig] = {}
        self._versions: dict[int, int] = {}
        self._backend: HuggingFaceBackend | None = None
        self._lock = threading.RLock()
        self._followers: list[FollowVersions] = []
        for config in adapters_by_id(configs).values():
            self.make(config)

    @property
    def configs(self) -> dict[int, LoRAConfig]:
        """The adapters there are."""
        return dict(self._configs)

    @property
    def backend(self) -> HuggingFaceBackend:
        """What samples, with the adapters side by side; the base is loaded by the first who asks.

        Raises BackendError, a RuntimeError, where it cannot be ("Model loading failed", "GPU memory
        insufficient"), and ConfigError where there is no adapter yet.
        """
        with self._lock:
            if self._backend is None:
                if not self._configs:
                    raise ConfigError("there is no adapter yet: make(LoRAConfig(lora_id=0))")
                backend = opened(self.base, self._device)
                if isinstance(backend.model, PeftModel):
                    raise ConfigError(
                        f"base is the adapter {self.base}: give the model that it stands on, and "
                        "load the adapter"
                    )
                backend.model.requires_grad_(False)
                model = None
                for config in self._configs.values():
                    model = self._with_adapter(model or backend.model, config)
                self._backend = backend.with_model(model)
                for lora_id in self._configs:
                    self._publish(lora_id, 0)
            return self._backend

    def make(self, config: LoRAConfig) -> None:
        """A further adapter. Raises ConfigError for a number that is taken, and for target modules
        that the base lacks."""
        if not isinstance(config, LoRAConfig):
            raise ConfigError(f"config is {config!r}: give a LoRAConfig")
        with self._lock:
            if config.lora_id in self._configs:
                raise ConfigError(f"there is an adapter {config.lora_id} already: load its weights")
            if self._backend is not None:
                with self._backend.lock:
                    self._with_adapter(self._backend.model, config)
            self._configs[config.lora_id] = config
            self._versions[config.lora_id] = 0
            if self._backend is not None:
                self._publish(config.lora_id, 0)

    def load(self, lora_id: int, folder: str | Path) -> int:
        """Swap in the weights of a PEFT adapter in a folder or on the hub; returns the version.

        Raises BackendError where it cannot be read, and ConfigError for one of another make.
        """
        name = self._of(lora_id).name
        try:
            weights = weights_for(
                self.backend.model, path("folder", folder), name, "the LoRAConfig"
            )
        except ConfigError as error:
            raise ConfigError(f"{name} cannot be {error}: give it the same") from error
        return self.swap(lora_id, weights)

    def swap(self, lora_id: int, weights: Mapping[str, torch.Tensor]) -> int:
        """Swap in new weights, all of them, named as by `weights`; returns the version they have.

        Raises ConfigError, and changes nothing, for others than the adapter's names and shapes, and
        for numbers that are not finite.
        """
        config, backend = self._of(lora_id), self.backend
        with self._lock, backend.lock:
            held = weights_of(backend.model, config.name)
            if not isinstance(weights, Mapping) or set(weights) != set(held):
                raise ConfigError(
                    f"the weights for {config.name} have other names than its own: give all of "
                    f"those in weights({lora_id})"
                )
            try:
                new = {name: dense_like(weights[name], own) for name, own in held.items()}
            except ValueError as error:
                raise ConfigError(
                    f"the weights for {config.name} are none: {error}; keep the former"
                ) from error
            put(backend.model, config.name, new)
            version = self._versions[lora_id] + 1
            self._versions[lora_id] = version
            self._publish(lora_id, version)
        with ExitStack() as telling:  # every follower, though one raises
            for follower in reversed(self._followers):
                telling.callback(follower, lora_id, version)
        return version

    def weights(self, lora_id: int) -> dict[str, torch.Tensor]:
        """Copies of an adapter's weights now, by the names that PEFT's folders give them."""
        config, backend = self._of(lora_id), self.backend
        with backend.lock:
            held = weights_of(backend.model, config.name)
            return {name: tensor.detach().clone() for name, tensor in held.items()}

    def save(self, lora_id: int, folder: str | Path) -> int:
        """Write an adapter as a PEFT folder, whole or not at all; returns the version in it.

        Raises ConfigError where the folder holds something, or cannot be made.
        """
        config, backend, folder = self._of(lora_id), self.backend, Path(path("folder", folder))
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
        """Adapter -> name, version, digest of its weights (None while nobody used it), settings."""
        return {
            lora_id: {
                "name": config.name,
                "version": self._versions[lora_id],
                "digest": None if self._backend is None else self._backend.digests.get(config.name),
                "config": config,
            }
            for lora_id, config in list(self._configs.items())
        }

    def follow(self, follower: FollowVersions) -> None:
        """Tell of every new version from now on, in the thread that swaps it in."""
        self._followers.append(follower)

    def unfollow(self, follower: FollowVersions) -> None:
        """Tell it no more."""
        if follower in self._followers:
            self._followers.remove(follower)

    def _of(self, lora_id: int) -> LoRAConfig:
        if type(lora_id) is not int or lora_id not in self._configs:
            raise ConfigError(f"there is no adapter {lora_id!r}: there is {list(self._configs)}")
        return self._configs[lora_id]

    def _with_adapter(self, model: Any, config: LoRAConfig) -> PeftModel:
        """The model with one more adapter: a PeftModel around a base, or the same again."""
        inner = model.get_base_model() if isinstance(model, PeftModel) else model
        try:
            check_targets(inner, config.adapter.target_modules)
        except ConfigError as error:
            told = str(error).replace("models.adapters.", f"{config.name}: ")
            raise ConfigError(told) from error
        settings = lora_config(config.adapter)
        with isolated_randomness(self._seed), quiet_upstream():
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
    """Adapters on one shared base, which is loaded when they are first used."""
    return LoRAManager(configs, base=base, device=device)
