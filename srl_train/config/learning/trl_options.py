"""Allow-list of the GRPOConfig options that are passed on to TRL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from srl_train.errors import ConfigError

CLIPPED_LOSSES = ("dapo", "grpo", "bnpo", "dr_grpo", "luspo")
"""TRL's losses that clip the ratio on both sides; cispo clips it from above only."""
PLAIN_SCHEDULES = ("constant", "constant_with_warmup")
"""Schedules without settings of their own."""

TRL_OPTIONS = (
    "lr_scheduler_kwargs",
    "optim",
    "optim_args",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "bf16",
    "tf32",
    "activation_checkpointing",
    "activation_checkpointing_kwargs",
    "torch_empty_cache_steps",
    "router_aux_loss_coef",
    "disable_dropout",
    "cast_lm_head_to_fp32",
    "max_completion_length",
    "pad_to_multiple_of",
    "delta",
    "epsilon_high",
    "sapo_temperature_neg",
    "sapo_temperature_pos",
    "vespo_k_pos",
    "vespo_lambda_pos",
    "vespo_k_neg",
    "vespo_lambda_neg",
    "importance_sampling_level",
    "mask_truncated_completions",
    "top_entropy_quantile",
    "entropy_coef",
    "use_adaptive_entropy",
    "entropy_coef_min",
    "entropy_coef_max",
    "entropy_coef_delta",
    "entropy_target",
    "off_policy_mask_threshold",
    "use_bias_correction_kl",
)
"""Options of TRL's GRPOConfig that the loss, the optimizer or the forward pass of a learner reads.
TRL documents them; their types are checked when the learner is built."""
_POSITIVE = ("delta", "sapo_temperature_neg", "sapo_temperature_pos")

_OF_LOSSES: Mapping[str, tuple[str, ...]] = {
    "epsilon_high": (*CLIPPED_LOSSES, "cispo"),
    "delta": CLIPPED_LOSSES,
    "importance_sampling_level": (*CLIPPED_LOSSES, "cispo", "sapo"),
    "max_completion_length": ("dr_grpo",),
    **dict.fromkeys(("sapo_temperature_neg", "sapo_temperature_pos"), ("sapo",)),
    **dict.fromkeys(
        ("vespo_k_pos", "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg"), ("vespo",)
    ),
}
_WITH: Mapping[str, str] = {
    "activation_checkpointing_kwargs": "activation_checkpointing",
    "entropy_coef_min": "use_adaptive_entropy",
    "entropy_coef_max": "use_adaptive_entropy",
    "entropy_coef_delta": "use_adaptive_entropy",
    "entropy_target": "use_adaptive_entropy",
}


def refuse_unread(options: Mapping[str, Any], loss: str, beta: float, schedule: str) -> None:
    """Raise ConfigError for an option that nothing reads beside these settings of ours."""
    for name, value in options.items():
        if name in _POSITIVE and isinstance(value, int | float) and not value > 0:
            raise ConfigError(f"trl.{name} must be above 0, got {value}")
        if name == "epsilon_high" and isinstance(value, int | float) and not value >= 0:
            raise ConfigError(f"trl.{name} must be 0 or more, got {value}")
        if loss not in _OF_LOSSES.get(name, (loss,)):
            fix = f"it is read by the losses {', '.join(_OF_LOSSES[name])}, loss is {loss!r}"
        elif name in _WITH and not options.get(_WITH[name]):
            fix = f"it is read with trl.{_WITH[name]} only: set that too"
        elif name == "use_bias_correction_kl" and not beta:
            fix = "it is read where beta is above 0: set beta"
        elif name == "lr_scheduler_kwargs" and schedule in PLAIN_SCHEDULES:
            fix = f"the schedule {schedule!r} has no settings: set schedule"
        else:
            continue
        raise ConfigError(f"trl.{name}: {fix}, or leave it out")
