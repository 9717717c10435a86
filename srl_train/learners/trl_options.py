"""TRL's GRPOConfig from the configuration, and its errors as ConfigError."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, get_type_hints

import torch
from pydantic import ConfigDict, TypeAdapter, ValidationError
from torch.utils.checkpoint import checkpoint
from transformers import Trainer, get_scheduler
from trl import GRPOConfig

from srl_train.config.section import shown
from srl_train.errors import ConfigError

_OF_OPTIMIZERS = ("optim_args", "adam_beta1", "adam_beta2", "adam_epsilon")
_OF_CHECKPOINTING = {"every_n_layers", "offload", *inspect.signature(checkpoint).parameters} - {
    "function",
    "args",
    "kwargs",
}


_STRICT: ConfigDict = {"strict": True, "allow_inf_nan": False}


def check_model(options: Mapping[str, Any], model: Any) -> None:
    """Raise ConfigError for an option of TRL's that `model` cannot follow."""
    if options.get("router_aux_loss_coef") and not hasattr(
        model.config.get_text_config(), "output_router_logits"
    ):
        raise ConfigError(
            f"trl.router_aux_loss_coef is {options['router_aux_loss_coef']}: "
            f"{model.config.model_type} is no mixture of experts with router logits, leave it out"
        )


def grpo_arguments(own: Mapping[str, Any], options: Mapping[str, Any]) -> GRPOConfig:
    """The GRPOConfig of our arguments and TRL's own `options`; raises ConfigError where TRL refuses
    what they come to."""
    unknown = {*options.get("activation_checkpointing_kwargs", ())} - _OF_CHECKPOINTING
    if unknown:
        raise ConfigError(
            f"trl.activation_checkpointing_kwargs has {', '.join(map(repr, sorted(unknown)))}: "
            f"give some of {', '.join(sorted(_OF_CHECKPOINTING))}"
        )
    _check_types(options)
    try:
        arguments = GRPOConfig(**{**own, **options})
    except (TypeError, ValueError) as error:
        raise ConfigError(f"trl: {error}") from error
    _check_schedule(arguments)
    given = {name: options[name] for name in _OF_OPTIMIZERS if name in options}
    try:
        chosen = Trainer.get_optimizer_cls_and_kwargs(arguments)
        if given:
            chosen[0]([torch.zeros(1, requires_grad=True)], **chosen[1])
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"trl: the optimizer {arguments.optim.value} refuses {given}: {error}"
        ) from error
    for name in _OF_OPTIMIZERS:
        if name in options and options[name] != getattr(GRPOConfig, name):
            without = GRPOConfig(**{**own, **{n: v for n, v in options.items() if n != name}})
            if Trainer.get_optimizer_cls_and_kwargs(without) == chosen:
                raise ConfigError(
                    f"trl.{name} is not read by the optimizer {arguments.optim.value}: leave it out"
                )
    return arguments


def _check_types(options: Mapping[str, Any]) -> None:
    """Raise ConfigError for an option with a type or value that GRPOConfig does not declare."""
    kinds = get_type_hints(GRPOConfig)
    for name, value in options.items():
        try:
            TypeAdapter(kinds[name], config=_STRICT).validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise ConfigError(f"trl.{name}: {first['msg']}, got {shown(value)}") from None


def _check_schedule(arguments: GRPOConfig) -> None:
    """Raise ConfigError where the schedule lacks a setting, or is given one it does not have."""
    options = dict(arguments.lr_scheduler_kwargs or {})
    try:
        get_scheduler(
            arguments.lr_scheduler_type,
            torch.optim.SGD([torch.zeros(1)]),
            num_warmup_steps=arguments.get_warmup_steps(arguments.max_steps),
            num_training_steps=arguments.max_steps,
            scheduler_specific_kwargs=options,
        )
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"the schedule {arguments.lr_scheduler_type.value} with trl.lr_scheduler_kwargs "
            f"{options}: {error}"
        ) from error
