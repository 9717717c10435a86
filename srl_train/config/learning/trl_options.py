"""Allow-list of the GRPOConfig options that are passed on to TRL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, with_config
from typing_extensions import TypedDict  # pydantic asks for it on Python 3.11

from srl_train.errors import ConfigError

CLIPPED_LOSSES = ("dapo", "grpo", "bnpo", "dr_grpo", "luspo")
"""TRL's losses that clip the ratio on both sides; cispo clips it from above only."""
PLAIN_SCHEDULES = ("constant", "constant_with_warmup")
"""Schedules without settings of their own."""

Positive = Annotated[float, Field(gt=0)]


@with_config(ConfigDict(extra="forbid", strict=True, allow_inf_nan=False))
class TrlOptions(TypedDict, total=False):
    """What the loss, the optimizer or the forward pass of a learner reads, by TRL's names."""

    lr_scheduler_kwargs: dict[str, Any]
    optim: str
    optim_args: str
    adam_beta1: float
    adam_beta2: float
    adam_epsilon: float
    bf16: bool
    tf32: bool
    activation_checkpointing: bool
    activation_checkpointing_kwargs: dict[str, Any]
    torch_empty_cache_steps: int
    router_aux_loss_coef: float
    disable_dropout: bool
    cast_lm_head_to_fp32: bool
    max_completion_length: int
    pad_to_multiple_of: int
    delta: Positive
    epsilon_high: Annotated[float, Field(ge=0)]
    sapo_temperature_neg: Positive
    sapo_temperature_pos: Positive
    vespo_k_pos: float
    vespo_lambda_pos: float
    vespo_k_neg: float
    vespo_lambda_neg: float
    importance_sampling_level: Literal["token", "sequence"]
    mask_truncated_completions: bool
    top_entropy_quantile: float
    entropy_coef: float
    use_adaptive_entropy: bool
    entropy_coef_min: float
    entropy_coef_max: float
    entropy_coef_delta: float
    entropy_target: float
    off_policy_mask_threshold: float
    use_bias_correction_kl: bool


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


def refuse_unread(options: TrlOptions, loss: str, beta: float, schedule: str) -> None:
    """Raise ConfigError for an option that nothing reads beside these settings of ours."""
    for name in options:
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
