"""The `trl` section: any field of TRL's GRPOConfig that a learner reads, handed through.

Every field stands in one of three tables, so that a release of TRL with a field that nobody has
thought about fails a test instead of passing unread.
"""

from __future__ import annotations

import dataclasses
import difflib
import inspect
import math
import types
import typing
from collections.abc import Collection, Mapping
from typing import Any

import torch
from torch.utils.checkpoint import checkpoint
from transformers import Trainer, get_scheduler
from trl import GRPOConfig

from srl_train.config.bounds import above, at_least, default_of
from srl_train.config.learners import CLIPPED_LOSSES, SurrogateConfig
from srl_train.config.models import ModelsConfig
from srl_train.errors import ConfigError

OURS: Mapping[str, str] = {
    "output_dir": "the run's folder (--out)",
    "learning_rate": "grpo.learning_rate or ppo.learning_rate",
    "lr_scheduler_type": "grpo.schedule or ppo.schedule",
    "warmup_steps": "grpo.warmup_steps or ppo.warmup_steps",
    "weight_decay": "grpo.weight_decay or ppo.weight_decay",
    "max_grad_norm": "grpo.max_grad_norm or ppo.max_grad_norm",
    "gradient_accumulation_steps": "grpo.accumulation or ppo.accumulation",
    "steps_per_generation": "grpo.minibatches or ppo.minibatches",
    "num_iterations": "grpo.iterations or ppo.iterations",
    "epsilon": "grpo.clip or ppo.clip",
    "beta": "grpo.beta or ppo.beta",
    "loss_type": "grpo.loss or ppo.loss",
    "scale_rewards": "grpo.scale_rewards",
    "num_generations": "rollout.group_size",
    "generation_batch_size": "rollout.group_size and rollout.groups_per_round",
    "per_device_train_batch_size": "rollout.group_size, minibatches and accumulation",
    "max_steps": "rounds",
    "num_train_epochs": "rounds",
    "temperature": "models.sampling.temperature",
    "top_p": "models.sampling.top_p",
    "top_k": "models.sampling.top_k",
    "seed": "seed",
    "data_seed": "seed",
    "full_determinism": "seed",
    "use_cpu": "models.device",
    "label_smoothing_factor": "nothing: it belongs to supervised losses",
    "reward_weights": "mode: there is one reward, the mode's",
    "multi_objective_aggregation": "mode: there is one reward, the mode's",
    "save_strategy": "checkpoints.every",
    "save_steps": "checkpoints.every",
    "save_total_limit": "checkpoints.keep",
    "resume_from_checkpoint": "srl train --resume",
    "report_to": "the run itself: metrics go to metrics.jsonl and to MultiModelTrainer's sinks",
}
"""Field -> the setting of ours that takes its place."""

HANDED_ON = frozenset({
    "lr_scheduler_kwargs", "optim", "optim_args", "adam_beta1", "adam_beta2", "adam_epsilon",
    "bf16", "tf32", "activation_checkpointing", "activation_checkpointing_kwargs",
    "gradient_checkpointing", "gradient_checkpointing_kwargs", "torch_empty_cache_steps",
    "router_aux_loss_coef", "disable_dropout",
    "cast_lm_head_to_fp32", "max_completion_length", "pad_to_multiple_of", "delta",
    "epsilon_high", "sapo_temperature_neg", "sapo_temperature_pos", "vespo_k_pos",
    "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg", "importance_sampling_level",
    "mask_truncated_completions", "top_entropy_quantile", "entropy_coef", "use_adaptive_entropy",
    "entropy_coef_min", "entropy_coef_max", "entropy_coef_delta", "entropy_target",
    "off_policy_mask_threshold", "use_bias_correction_kl",
})  # fmt: skip
"""Fields that the loss, the optimizer or the forward pass of a learner reads."""

OF_THE_LOOP = frozenset({
    # Preparation, data loading, evaluation, logging, saving and pushing of TRL's own train().
    "use_liger_kernel", "liger_kernel_config", "optim_target_modules",
    "average_tokens_across_devices", "fp16", "bf16_full_eval",
    "fp16_full_eval", "torch_compile", "torch_compile_backend", "torch_compile_mode", "use_cache",
    "neftune_noise_alpha", "auto_find_batch_size", "logging_strategy", "logging_steps",
    "logging_first_step", "log_on_each_node", "logging_nan_inf_filter",
    "include_num_input_tokens_seen", "log_level", "log_level_replica", "disable_tqdm", "run_name",
    "project", "trackio_space_id", "trackio_bucket_id", "trackio_static_space_id",
    "eval_strategy", "eval_steps", "eval_delay", "per_device_eval_batch_size",
    "prediction_loss_only", "eval_on_start", "eval_do_concat_batches", "eval_use_gather_object",
    "eval_accumulation_steps", "include_for_metrics", "batch_eval_metrics", "save_only_model",
    "save_on_each_node", "enable_jit_checkpoint", "push_to_hub", "hub_token", "hub_private_repo",
    "hub_model_id", "hub_strategy", "hub_always_push", "hub_revision", "load_best_model_at_end",
    "metric_for_best_model", "greater_is_better", "ignore_data_skip",
    "restore_callback_states_from_checkpoint", "accelerator_config", "parallelism_config",
    "dataloader_drop_last", "dataloader_num_workers", "dataloader_pin_memory",
    "dataloader_persistent_workers", "dataloader_prefetch_factor",
    "dataloader_multiprocessing_context", "dataloader_in_order", "remove_unused_columns",
    "label_names", "train_sampling_strategy", "length_column_name", "ddp_find_unused_parameters",
    "ddp_bucket_cap_mb", "ddp_broadcast_buffers", "ddp_static_graph", "ddp_backend",
    "ddp_timeout", "fsdp", "fsdp_config", "deepspeed", "debug", "skip_memory_metrics",
    "do_train", "do_eval", "do_predict", "local_rank", "shuffle_dataset", "log_completions",
    "log_multimodal", "num_completions_to_print", "log_unique_prompts",
    "log_completions_hub_repo",
    # Callbacks of that loop.
    "sync_ref_model", "ref_model_mixup_alpha", "ref_model_sync_steps",
    # Its model loading and its generation: models are loaded and sampled from by us.
    "model_init_kwargs", "trust_remote_code", "num_generations_eval", "ds3_gather_for_generation",
    "min_p", "generation_kwargs", "chat_template_kwargs", "repetition_penalty",
    "cache_implementation", "use_vllm", "vllm_mode", "vllm_model_impl",
    "vllm_enable_sleep_mode", "vllm_structured_outputs_regex", "vllm_server_base_url",
    "vllm_server_host", "vllm_server_port", "vllm_server_timeout", "vllm_group_port",
    "vllm_gpu_memory_utilization", "vllm_max_model_length", "vllm_tensor_parallel_size",
    "vllm_importance_sampling_correction", "vllm_importance_sampling_mode",
    "vllm_importance_sampling_clip_max", "vllm_importance_sampling_clip_min",
    "vllm_importance_sampling_cap", "max_tool_calling_iterations",
    "use_transformers_continuous_batching", "transformers_continuous_batching_config",
    "use_transformers_paged",
})  # fmt: skip
"""Fields that nothing would read here: learners are stepped, TRL's own loop does not run."""


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
_ABOVE_ZERO = ("delta", "sapo_temperature_neg", "sapo_temperature_pos")
_OF_OPTIMIZERS = ("optim_args", "adam_beta1", "adam_beta2", "adam_epsilon")
_PLAIN_SCHEDULES = ("constant", "constant_with_warmup")
_OF_CHECKPOINTING = {"every_n_layers", "offload", *inspect.signature(checkpoint).parameters} - {
    "function",
    "args",
    "kwargs",
}


def check_trl_options(
    options: Mapping[str, Any], sections: Collection[SurrogateConfig] = ()
) -> dict[str, Any]:
    """The `trl` section, checked field by field; raises ConfigError for the first that is wrong,
    and for what none of the `sections` that models learn by would read.

    Numbers may be written as YAML reads them (1e-3 is text there).
    """
    hints = typing.get_type_hints(GRPOConfig)
    known = {field.name for field in dataclasses.fields(GRPOConfig)}
    checked = {}
    for name, value in options.items():
        if name not in known:
            nearest = difflib.get_close_matches(name, HANDED_ON, n=1, cutoff=0.7)
            hint = f"did you mean {nearest[0]!r}?" if nearest else "see TRL's GRPOConfig"
            if name in {setting.name for setting in dataclasses.fields(ModelsConfig)}:
                hint = f"it is set by models.{name}"
            raise ConfigError(f"trl.{name} is no field of TRL's GRPOConfig: {hint}")
        if name in OURS:
            raise ConfigError(f"trl.{name} is set by {OURS[name]}")
        if name not in HANDED_ON:
            raise ConfigError(
                f"trl.{name} is read only by TRL's own training loop and generation, which do "
                "not run here: leave it out"
            )
        # The familiar names are aliases that transformers gives up in its next major release.
        now = name.replace("gradient_checkpointing", "activation_checkpointing")
        checked[now] = _converted(hints[name], value, f"trl.{name}")
        _check_number(f"trl.{name}", checked[now])
    level = checked.get("importance_sampling_level", "token")
    if level not in ("token", "sequence"):
        raise ConfigError(
            f"trl.importance_sampling_level is {level!r}: give one of token, sequence"
        )
    unknown = {*(checked.get("activation_checkpointing_kwargs") or ())} - _OF_CHECKPOINTING
    if unknown:
        raise ConfigError(
            f"trl.activation_checkpointing_kwargs has {', '.join(map(repr, sorted(unknown)))}: "
            f"give some of {', '.join(sorted(_OF_CHECKPOINTING))}"
        )
    if sections:
        _refuse_unread(checked, sections)
    return checked


def _refuse_unread(options: Mapping[str, Any], sections: Collection[SurrogateConfig]) -> None:
    defaults = {f.name: default_of(f) for f in dataclasses.fields(GRPOConfig)}
    losses = sorted({section.loss for section in sections})
    for name, value in options.items():
        if value == defaults[name]:
            continue
        if not {*_OF_LOSSES.get(name, losses)} & {*losses}:
            raise ConfigError(
                f"trl.{name} is read by the losses {', '.join(_OF_LOSSES[name])} only, the loss is "
                f"{', '.join(losses)}: change it, or leave trl.{name} out"
            )
        if name in _WITH and not options.get(_WITH[name]):
            raise ConfigError(
                f"trl.{name} is read only with trl.{_WITH[name]}: set it, or leave trl.{name} out"
            )
        if name == "use_bias_correction_kl" and not any(section.beta for section in sections):
            raise ConfigError(
                "trl.use_bias_correction_kl is read only where beta is above 0: set grpo.beta or "
                "ppo.beta, or leave it out"
            )
        if name == "lr_scheduler_kwargs" and all(s.schedule in _PLAIN_SCHEDULES for s in sections):
            raise ConfigError(
                f"trl.lr_scheduler_kwargs is read by no schedule of {', '.join(_PLAIN_SCHEDULES)}: "
                "set grpo.schedule or ppo.schedule, or leave it out"
            )


def check_model(options: Mapping[str, Any], model: Any) -> None:
    """Raise ConfigError for an option of the checked `trl` section that `model` cannot follow."""
    if options.get("router_aux_loss_coef") and not hasattr(
        model.config.get_text_config(), "output_router_logits"
    ):
        raise ConfigError(
            f"trl.router_aux_loss_coef is {options['router_aux_loss_coef']}: "
            f"{model.config.model_type} is no mixture of experts with router logits, leave it out"
        )


def grpo_arguments(own: Mapping[str, Any], options: Mapping[str, Any]) -> GRPOConfig:
    """The GRPOConfig of our arguments and the `trl` section; raises ConfigError where TRL refuses
    what they come to."""
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


def _check_number(path: str, value: Any) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{path} is {value}: give a finite number")
    name = path.removeprefix("trl.")
    if value is not None and name == "epsilon_high":
        at_least(path, value, 0.0)
    if value is not None and name in _ABOVE_ZERO:
        above(path, value, 0.0)


def _converted(hint: Any, value: Any, path: str) -> Any:
    origin = typing.get_origin(hint)
    choices = typing.get_args(hint) if origin in (typing.Union, types.UnionType) else (hint,)
    for choice in choices:
        kind = typing.get_origin(choice) or choice
        if isinstance(value, kind) and isinstance(value, bool) == (kind is bool):
            return value
    wanted = " or ".join("null" if c is type(None) else getattr(c, "__name__", str(c))
                         for c in choices)  # fmt: skip
    refusal = ConfigError(f"{path} is {value!r}: give {wanted}")
    if float not in choices or not isinstance(value, int | str) or isinstance(value, bool):
        raise refusal
    try:
        return float(value)
    except ValueError:
        raise refusal from None
