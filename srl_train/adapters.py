"""PEFT adapters in folders or on the hub, loaded onto their base model."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from srl_agents.errors import BackendError
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.huggingface.loading import not_loaded, reachable_source_of, source_of
from srl_agents.llm.model_folders import is_gguf
from srl_envs.untrusted import read_bytes, read_json
from srl_envs.validation import shown
from srl_train.errors import ConfigError
from srl_train.learners.upstream_warnings import quiet_upstream
from srl_train.tensor_checks import misfit

LARGEST_SETTINGS = 2**20
"""Limit of adapter_config.json in bytes."""
LARGEST_NUMBER = 2**16
"""Limit of an integer in adapter_config.json, such as the rank."""
_PLAIN_STARTS = (True, False, "gaussian")
"""Values of `init_lora_weights` that do not change the base."""


def adapter_base(name: str) -> str | None:
    """Return the name of the base model of the PEFT adapter `name`, None for a complete model.

    `name` is a folder, GGUF file or hub name. Raises BackendError if a required hub does
    not answer, or the adapter is damaged, no LoRA, unsafe or without a base.
    """
    if is_gguf(name):
        return None
    settings = _settings_of(name, *reachable_source_of(name))
    if settings is None:
        return None
    base = settings.get("base_model_name_or_path")
    if not base:
        raise BackendError(
            f"the adapter {name!r} names no base_model_name_or_path to load the adapter on"
        )
    return str(base)


def _settings_of(name: str, source: str, revised: dict[str, str]) -> dict[str, Any] | None:
    from transformers.utils import find_adapter_config_file

    try:
        file = find_adapter_config_file(source, **revised)
        if file is None:
            return None
        settings = read_json(read_bytes(Path(file), LARGEST_SETTINGS))
    except (OSError, ValueError, TypeError) as error:
        raise BackendError(f"cannot load the adapter {name!r}: {error}") from error
    wrong = _wrong_setting(settings)
    if wrong is not None:
        raise BackendError(f"cannot load the adapter {name!r}: {wrong}")
    return settings  # type: ignore[no-any-return]


def _wrong_setting(settings: Any) -> str | None:
    if not isinstance(settings, dict):
        return f"its settings must be a mapping, got a {type(settings).__name__}"
    if settings.get("peft_type") != "LORA":
        return f"peft_type must be 'LORA', got {shown(settings.get('peft_type'))}"
    # PEFT imports the module that megatron_config names, and layer_replication copies layers.
    for key in ("megatron_config", "layer_replication"):
        if settings.get(key):
            return f"{key} must be empty, got {shown(settings[key])}"
    parts: list[Any] = [settings]
    while parts:
        part = parts.pop()
        for value in part.values() if isinstance(part, dict) else part:
            if isinstance(value, dict | list):
                parts.append(value)
            elif isinstance(value, int) and abs(value) > LARGEST_NUMBER:
                return f"whole numbers must be at most {LARGEST_NUMBER}, got {shown(value)}"
    return None


def attach(model: Any, adapter: str, name: str = "default") -> Any:
    """Load the adapter `adapter` (folder or hub name), frozen, as `name`; return the PeftModel.

    A PeftModel `model` is returned itself, and its active adapter is unchanged. Another model is
    changed and wrapped. Raises BackendError if the adapter cannot be read or does not fit.
    """
    from peft import PeftModel

    source, revised = source_of(adapter)
    _settings_of(adapter, source, revised)
    try:
        with quiet_upstream():
            if isinstance(model, PeftModel):
                model.load_adapter(source, adapter_name=name, **revised)
                return model
            return PeftModel.from_pretrained(
                model, source, adapter_name=name, trust_remote_code=False, **revised
            )
    except Exception as error:  # PEFT raises errors of any class for damaged files
        raise BackendError(f"cannot load the adapter {adapter!r}: {error}") from error


def adapter_tokenizer(adapter: str) -> Any:
    """Load the tokenizer saved in the folder `adapter`; None if there is none, or for a hub name.

    Raises BackendError if the tokenizer is damaged.
    """
    if not (Path(adapter) / "tokenizer_config.json").is_file():
        return None
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(adapter, trust_remote_code=False)
    except (OSError, ValueError) as error:
        raise not_loaded(adapter, error) from error


def weights_for(model: Any, adapter: str, name: str, settings: str) -> dict[str, torch.Tensor]:
    """Return the weights of the PEFT adapter in the folder or hub name `adapter`, on the CPU.

    The keys are the names in adapter folders. `model`, a PeftModel, is not changed. Raises
    BackendError if `adapter` cannot be read. Raises ConfigError if its tensors, scale or
    initialization do not fit the adapter `name` of `model`, called `settings` in the message.
    """
    from peft import PeftConfig
    from peft.utils import load_peft_weights

    source, revised = source_of(adapter)
    _settings_of(adapter, source, revised)
    try:
        theirs = PeftConfig.from_pretrained(source, trust_remote_code=False, **revised)
        weights: dict[str, torch.Tensor] = load_peft_weights(source, device="cpu", **revised)
    except Exception as error:  # PEFT raises errors of any class for damaged files
        raise BackendError(f"cannot load the adapter {adapter!r}: {error}") from error
    ours = model.peft_config[name]
    wrong = misfit(weights, weights_of(model, name))
    scales = (theirs.lora_alpha, theirs.use_rslora) == (ours.lora_alpha, ours.use_rslora)
    if not scales or theirs.alpha_pattern or theirs.init_lora_weights not in _PLAIN_STARTS:
        wrong = "alpha, alpha_pattern, use_rslora or init_lora_weights"
    if wrong:
        raise ConfigError(
            f"the adapter {adapter} (rank {theirs.r}, alpha {theirs.lora_alpha:g}) differs from "
            f"{settings} (rank {ours.r}, alpha {ours.lora_alpha:g}; {wrong}): use the same "
            f"settings, or merge it into its base first, srl export {adapter} FOLDER --merge"
        )
    return weights


def weights_of(model: Any, name: str) -> dict[str, torch.Tensor]:
    """Return the adapter `name` of a PeftModel: name in adapter folders -> tensor, not copied."""
    from peft import get_peft_model_state_dict

    found: dict[str, torch.Tensor] = get_peft_model_state_dict(
        model, adapter_name=name, save_embedding_layers=False
    )
    return found


def copy_weights(model: Any, name: str, weights: Mapping[str, torch.Tensor]) -> None:
    """Copy weights into the adapter `name` of the PeftModel `model`.

    `weights` is name in adapter folders -> tensor. Raises KeyError for an unknown name.
    """
    parameters = dict(model.named_parameters())
    with torch.no_grad():
        for path, tensor in weights.items():
            head, _, last = path.rpartition(".")
            parameters[f"{head}.{name}.{last}"].copy_(tensor)


def merged(backend: HuggingFaceBackend) -> HuggingFaceBackend:
    """Return a backend whose PEFT adapter is merged into its base, with weights that can train.

    The model of `backend` is changed and must not be used any more. A backend without an adapter
    is returned unchanged. Raises BackendError if the adapter cannot be merged.
    """
    from peft import PeftModel

    if not isinstance(backend.model, PeftModel):
        return backend
    try:
        with quiet_upstream():
            model = backend.model.merge_and_unload()
    except (ValueError, NotImplementedError, RuntimeError, AttributeError) as error:
        raise BackendError(f"the adapter of {backend.name} cannot be merged: {error}") from error
    model.requires_grad_(True)
    return backend.with_model(model)
