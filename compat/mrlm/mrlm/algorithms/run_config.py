"""Translation of an experiment into a RunConfig of Core SRL."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from mrlm.config import ExperimentConfig, ModelConfig, TrainingConfig
from mrlm.games import NamedEnvironment, is_plain
from srl_agents.llm.sampling import Sampling
from srl_train import processes
from srl_train.config.run import RunConfig
from srl_train.config.section import Section
from srl_train.config.yaml_file import from_tree
from srl_train.errors import ConfigError

log = logging.getLogger("mrlm")

Settings = dict[str, Any]
"""Path in the RunConfig, such as "algorithm.clip_range" -> value."""


def run_config(
    config: ExperimentConfig,
    environment: NamedEnvironment | None,
    sampling: Sampling | None = None,
) -> RunConfig:
    """Return the RunConfig that trains as an experiment describes.

    Args:
        config: Settings of the experiment.
        environment: (name, options) to play, or None, which also disables evaluations. With
            options that JSON cannot express, the caller must pass the environment to the Trainer.
        sampling: Sampling settings of a model that is passed to the Trainer; None if
            `config.model` describes the model.

    Raises:
        ConfigError: Settings are not allowed, or not allowed together.
    """
    training = config.training
    learner = training.algorithm if training.algorithm in ("sft", "dpo") else "algorithm"
    settings: Settings = {"models.count": 1, "rounds": 0}
    if config.distributed.enabled and processes.count() > 1:
        settings["parallel"] = config.distributed.strategy
    settings["logging.run_name"] = config.experiment_name
    settings |= _direct(training)
    settings[f"{learner}.schedule"] = training.lr_scheduler
    if training.lr_scheduler == "constant" and training.warmup_steps:
        settings[f"{learner}.schedule"] = "constant_with_warmup"
    if sampling is None:
        settings |= _model(config.model)
    else:
        settings |= {f"models.sampling.{name}": value for name, value in vars(sampling).items()}
    if environment is None:
        settings["logging.evaluation_episodes"] = 0
    elif is_plain(environment[1]):
        settings["environment.name"], settings["environment.options"] = environment
    settings |= {"ppo": _ppo, "grpo": _grpo, "dpo": _dpo, "sft": _sft}[training.algorithm](config)
    return from_tree(
        {}, {path.replace("learner.", f"{learner}.", 1): value for path, value in settings.items()}
    )


def _direct(section: Section) -> Settings:
    return {
        field.serialization_alias: getattr(section, name)
        for name, field in type(section).model_fields.items()
        if field.serialization_alias is not None
    }


def _model(model: ModelConfig) -> Settings:
    settings = _direct(model)
    if not model.use_lora:
        settings = {p: v for p, v in settings.items() if not p.startswith("models.adapters.")}
    if model.torch_dtype == "float16":
        log.warning(
            "model.torch_dtype: training in bfloat16 instead of float16, with the same memory and "
            "without scaling of the loss"
        )
    half = model.torch_dtype in ("float16", "bfloat16")
    return settings | {"models.dtype": "bfloat16" if half else "float32"}


def _ppo(config: ExperimentConfig) -> Settings:
    return _direct(config.ppo) | {
        "algorithm.name": "ppo",
        "algorithm.critic": "shared",
        "algorithm.normalize_advantages": "update" if config.ppo.normalize_advantages else "none",
        **_rounds(config.training, None),
    }


def _grpo(config: ExperimentConfig) -> Settings:
    grpo = config.grpo
    return _direct(grpo) | {
        "algorithm.name": "grpo",
        "algorithm.scale_rewards": grpo.reward_normalization if grpo.normalize_rewards else "none",
        **_rounds(config.training, grpo.group_size),
    }


def _rounds(training: TrainingConfig, group: int | None) -> Settings:
    played, passes = training.num_rollouts_per_iteration, training.gradient_accumulation_steps
    steps = max(1, played // training.batch_size)
    parts = steps * passes
    group = max(2, parts) if group is None else group
    uneven = played > training.batch_size and played % training.batch_size
    if uneven or played % group or group % parts:
        raise ConfigError(
            f"training.batch_size: got {training.batch_size}: num_rollouts_per_iteration "
            f"({played}) must be a multiple of batch_size and of the group size ({group}), and the "
            f"group size a multiple of steps x passes ({parts})"
        )
    return {
        "rounds": training.num_epochs,
        "rollout.group_size": group,
        "rollout.groups_per_round": played // group,
        "algorithm.minibatches": steps,
        "algorithm.gradient_accumulation_steps": passes,
    }


def _dpo(config: ExperimentConfig) -> Settings:
    if config.dpo.data is None:
        raise ConfigError("dpo.data: required, the file of preference pairs, got none")
    return _direct(config.dpo) | _stage(config.training, "dpo") | {"dpo.data": [config.dpo.data]}


def _sft(config: ExperimentConfig) -> Settings:
    sft = config.sft
    weights: Mapping[str, float] = {
        "sft.answer_weight": 0.0 if sft.mode == "world_model" else sft.bc_weight,
        "sft.observation_weight": (
            0.0 if sft.mode == "behavioral_cloning" else sft.world_model_weight
        ),
    }
    source: Settings = {"sft.episodes": config.training.num_rollouts_per_iteration}
    if sft.data is not None:
        source = {"sft.data": [sft.data]}
    return {**_direct(sft), **weights, **source, **_stage(config.training, "sft")}


def _stage(training: TrainingConfig, name: str) -> Settings:
    if training.gradient_accumulation_steps != 1:
        raise ConfigError(
            f"training.gradient_accumulation_steps: must be 1 for {name}, got "
            f"{training.gradient_accumulation_steps}"
        )
    return {f"{name}.epochs": training.num_epochs, f"{name}.batch_size": training.batch_size}
