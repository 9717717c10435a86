"""LoRA adapters of several models on one shared base model.

Each learner gets a model object of its own, so that zeroing, clipping and parking gradients can
never touch another model's adapter; the objects share the base's parameter tensors. A further
object carries all adapters side by side for rollouts: one batch answers for all models.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import torch
from peft import LoraConfig, get_peft_model

from srl_agents.llm.backends.huggingface.loading import shared_states
from srl_train.config.models import AdapterConfig
from srl_train.errors import ConfigError
from srl_train.learners.trl_stepped import isolated_randomness
from srl_train.learners.upstream_warnings import quiet_upstream

ADAPTER = "default"
"""How TRL calls the adapter of a PeftModel that it was handed."""


def share(base: Any) -> Any:
    """A new module tree over the very same weights as `base`: parameters, buffers, and the scales
    of quantised layers."""
    held = [*base.parameters(), *base.buffers(), *shared_states(base)]
    return copy.deepcopy(base, {id(one): one for one in held})


def adapter_models(
    base: Any, names: Sequence[str], config: AdapterConfig, seed: int
) -> dict[str, Any]:
    """One PeftModel per name over `base`'s tensors, all adapters equal at the start.

    Equal starts (A drawn from `seed`, B zero) are what makes averaging adapters meaningful. Raises
    ConfigError for target modules that the base lacks.
    """
    check_targets(base, config.target_modules)
    base.requires_grad_(False)
    models = {}
    for name in names:
        with isolated_randomness(seed), quiet_upstream():
            models[name] = get_peft_model(share(base), lora_config(config), adapter_name=ADAPTER)
        # TRL rounds the adapters of a model that carries such a mark to bfloat16, in which small
        # steps of AdamW are lost; ours are trained in float32, whatever their base.
        for mark in ("is_loaded_in_4bit", "is_loaded_in_8bit"):
            vars(models[name].get_base_model()).pop(mark, None)
    return models


def side_by_side(base: Any, models: Mapping[str, Any], config: AdapterConfig) -> Any:
    """One PeftModel that carries every model's adapter under the model's name.

    The adapters' parameters are the learners' own tensors: what a learner changes, this plays.
    """
    first, *others = models
    with isolated_randomness(0), quiet_upstream():  # its own first values are replaced below
        together = get_peft_model(share(base), lora_config(config), adapter_name=first)
        for name in others:
            together.add_adapter(name, lora_config(config))
    places = dict(together.named_modules())
    for name, model in models.items():
        for path, module in model.named_modules():
            if path.rpartition(".")[2] not in ("lora_A", "lora_B"):
                continue
            places[path][name].weight = module[ADAPTER].weight
    together.requires_grad_(False)
    for model in models.values():  # the line above froze the shared tensors too
        _unfreeze(model)
    return together


def check_adapter_names(names: Iterable[str]) -> None:
    """Raise ConfigError for an opponent pool called like an attribute of torch's ModuleDict, in
    which PEFT holds adapters by their names and which refuses such a key."""
    own = torch.nn.ModuleDict()
    for name in names:
        if hasattr(own, name):
            raise ConfigError(
                f"opponent_pools: got {name!r}, which adapters cannot be called, as PEFT holds "
                "them in a torch.nn.ModuleDict and it has an attribute of that name: rename the "
                "pool, or leave models.adapters out"
            )


def check_targets(base: Any, targets: str | Sequence[str]) -> None:
    """Raise ConfigError for a name that fits no linear layer: beside others, PEFT would pass over
    it. Adapters of embeddings have parameters of another kind, which `side_by_side` cannot share.
    """
    if targets == "all-linear":
        return
    layers = [path for path, module in base.named_modules()
              if getattr(getattr(module, "weight", None), "ndim", 0) == 2
              and not isinstance(module, torch.nn.Embedding)]  # fmt: skip
    names = sorted({path.rpartition(".")[2] for path in layers})
    offered = f"give 'all-linear', or a list of some of {', '.join(names)}"
    if not targets:
        raise ConfigError(f"models.adapters.target_modules is empty: {offered}")
    for name in [targets] if isinstance(targets, str) else targets:
        try:  # a single text is a regular expression to PEFT, a list has ends of paths
            pattern = re.compile(name if name is targets else rf"(.*\.)?{re.escape(name)}")
        except re.error as error:
            raise ConfigError(
                f"models.adapters.target_modules is {name!r}, no regular expression ({error}): "
                f"{offered}"
            ) from error
        if not any(map(pattern.fullmatch, layers)):
            raise ConfigError(
                f"models.adapters.target_modules: {name!r} fits no linear layer's path: {offered}"
            )


def _unfreeze(model: Any) -> None:
    for name, parameter in model.named_parameters():
        if "lora_" in name:
            parameter.requires_grad_(True)


def lora_config(config: AdapterConfig) -> LoraConfig:
    """The settings as PEFT takes them."""
    modules = config.target_modules
    return LoraConfig(
        task_type="CAUSAL_LM",
        r=config.rank,
        lora_alpha=config.alpha,
        lora_dropout=config.dropout,
        target_modules=modules if isinstance(modules, str) else list(modules),
    )
