"""LoRA adapters of several models on one shared base model.

Each learner has a separate module, and all modules share the base's tensors. One more module
contains all adapters, so that a single batch samples from all models.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from typing import Any

import torch

from srl_agents.llm.backends.huggingface.loading import shared_states
from srl_train.config.models import AdapterConfig
from srl_train.errors import ConfigError
from srl_train.learners.trl_stepped import isolated_randomness
from srl_train.learners.upstream_warnings import quiet_upstream

ADAPTER = "default"
"""TRL's name for the adapter of a PeftModel."""


def share(base: Any) -> Any:
    """Return a copy of the module tree `base` that shares all its tensors."""
    tensors = [*base.parameters(), *base.buffers(), *shared_states(base)]
    return copy.deepcopy(base, {id(one): one for one in tensors})


def adapter_models(
    base: Any, names: Sequence[str], config: AdapterConfig, seed: int
) -> dict[str, Any]:
    """Return name -> PeftModel on `base`, each with a new LoRA adapter.

    The models share the tensors of `base`, which are frozen. Their adapters are separate and start
    equal: A is drawn from `seed`, and B is zero. Raises ConfigError if a target module is not in
    the base, or PEFT rejects the settings.
    """
    from peft import get_peft_model

    check_targets(base, config.target_modules)
    base.requires_grad_(False)
    models = {}
    for name in names:
        try:
            with isolated_randomness(seed), quiet_upstream():
                settings = lora_config(config)
                models[name] = get_peft_model(share(base), settings, adapter_name=ADAPTER)
        except (ValueError, re.error) as error:
            raise ConfigError(f"models.adapters: {error}") from error
        # TRL casts the adapters of models with these marks to bfloat16, which loses small steps of
        # AdamW. Adapters are trained in float32 on every base.
        for mark in ("is_loaded_in_4bit", "is_loaded_in_8bit"):
            vars(models[name].get_base_model()).pop(mark, None)
    return models


def side_by_side(base: Any, models: Mapping[str, Any], config: AdapterConfig) -> Any:
    """Return a PeftModel on the frozen `base` with the adapters of all `models`, by name.

    `models` is a result of `adapter_models` for `base`. Adapters are shared and trainable.
    """
    from peft import get_peft_model

    first, *others = models
    with isolated_randomness(0), quiet_upstream():
        together = get_peft_model(share(base), lora_config(config), adapter_name=first)
        for name in others:
            together.add_adapter(name, lora_config(config))
    places = dict(together.named_modules())
    for name, model in models.items():
        for path, module in model.named_modules():
            if path.rpartition(".")[2] in ("lora_A", "lora_B"):
                places[path][name].weight = module[ADAPTER].weight
    together.requires_grad_(False)
    for model in models.values():  # the line above froze the shared tensors too
        for name, parameter in model.named_parameters():
            if "lora_" in name:
                parameter.requires_grad_(True)
    return together


def check_targets(base: Any, targets: str | Sequence[str]) -> None:
    """Raise ConfigError for an empty value, or a list with a name that is no linear layer.

    A name is the last part of the path of a layer in `base`. Any nonempty string is accepted.
    """
    layers = {
        path.rpartition(".")[2]
        for path, module in base.named_modules()
        if getattr(getattr(module, "weight", None), "ndim", 0) == 2
        and not isinstance(module, torch.nn.Embedding)
    }
    if not targets or (not isinstance(targets, str) and not layers.issuperset(targets)):
        raise ConfigError(
            "models.adapters.target_modules: must be 'all-linear', or a list of some of "
            f"{', '.join(sorted(layers))}, got {targets!r}"
        )


def lora_config(config: AdapterConfig) -> Any:
    """Return the settings as PEFT's LoraConfig."""
    from peft import LoraConfig

    modules = config.target_modules
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=modules if isinstance(modules, str) else list(modules),
    )
