"""An experiment as a run of Core SRL: every setting has its place there, or is refused."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

from mrlm.config.experiment import ExperimentConfig, ModelConfig, TrainingConfig
from mrlm.core.types import GenerationConfig
from srl_train.config.run import RunConfig
from srl_train.config.yaml_file import from_tree
from srl_train.distributed import processes
from srl_train.errors import ConfigError

log = logging.getLogger("mrlm")

ADAM = ("adam_beta1", "adam_beta2", "adam_epsilon")


def run_config(
    config: ExperimentConfig,
    algorithm: str,
    iterations: int,
    *,
    environment: tuple[str, Mapping[str, Any]] | None,
    model: ModelConfig | None,
    generation: GenerationConfig,
    data: str | None = None,
) -> RunConfig:
    """The run of an experiment.

    `environment` is its name and options, None for one that is handed over; `model` None for one
    that is. `data` is the file that sft or dpo learns from. Raises ConfigError for settings that do
    not go together.
    """
    training = config.training
    if model is None and (training.use_fp16 or training.use_bf16):
        raise ConfigError(
            "training.use_fp16, use_bf16: the policy is a model that is loaded already: load it "
            "with dtype=torch.bfloat16, and leave them out"
        )
    sampling = generation.sampling()
    tree: dict[str, Any] = {
        "models": {
            "count": 1,
            "sampling": {
                "temperature": sampling.temperature,
                "top_p": sampling.top_p,
                "top_k": sampling.top_k,
                "max_new_tokens": sampling.max_new_tokens,
            },
            **({} if model is None else _model(model, training)),
        },
        "checkpoints": {"every": config.every("save"), "keep": training.save_total_limit or -1},
        "logging": {
            "every": config.every("log"),
            "evaluation_episodes": training.eval_episodes,
            **_trackers(training),
        },
        "seed": training.seed or 0,
        "rounds": 0,
        "parallel": _parallel(config),
    }
    if environment is not None:
        name, options = environment
        tree["environment"] = {"name": name, "options": dict(options)}
    if algorithm in ("ppo", "grpo"):
        tree |= _rounds(config, algorithm, iterations, model)
        if algorithm == "grpo":
            tree["models"]["sampling"]["temperature"] = config.grpo.temperature
    else:
        tree[algorithm] = _stage(config, algorithm, iterations, data)
    return from_tree(tree)


def _trackers(training: TrainingConfig) -> dict[str, Any]:
    """Who else is told of the run."""
    told: dict[str, Any] = {"trackers": []}
    if training.use_tensorboard:
        told["trackers"].append("tensorboard")
        told["directory"] = training.log_dir
    if training.wandb_project is not None:
        told["trackers"].append("wandb")
        told |= {"project": training.wandb_project, "wandb": {"entity": training.wandb_entity}}
    if training.wandb_run_name is not None:
        told["run_name"] = training.wandb_run_name
    return told


def _rounds(
    config: ExperimentConfig, algorithm: str, iterations: int, model: ModelConfig | None
) -> dict[str, Any]:
    training, grpo = config.training, config.grpo
    played, passes = training.num_rollouts_per_iteration, training.accumulation
    steps = max(1, played // training.batch_size)
    if played > training.batch_size and played % training.batch_size:
        raise ConfigError(
            f"training.batch_size: got {training.batch_size}: give a divisor of "
            f"num_rollouts_per_iteration ({played})"
        )
    parts = steps * passes
    group = grpo.group_size if algorithm == "grpo" else max(2, parts)
    if played % group:
        raise ConfigError(
            f"training.num_rollouts_per_iteration: got {played}: give a multiple of {group}"
        )
    if group % parts:
        raise ConfigError(
            f"training.batch_size: got {training.batch_size} of {played} episodes in {passes} "
            f"passes, so {parts} parts: they have to divide grpo.group_size ({group}), as groups "
            f"are shared out evenly: give {_batches(played, group, passes)}"
        )
    section: dict[str, Any] = {
        "name": algorithm,
        **_optimizer(training),
        "minibatches": steps,
        "gradient_accumulation_steps": passes,
        "trl": {
            name: getattr(training, name)
            for name in ADAM
            if getattr(training, name) != TrainingConfig.model_fields[name].default
        },
    }
    if model is not None and model.gradient_checkpointing:
        section["trl"]["activation_checkpointing"] = True
    if algorithm == "ppo":
        ppo = config.ppo
        discount = ppo.gamma
        section |= {
            "clip_range": ppo.clip_range,
            "num_iterations": ppo.num_ppo_epochs,
            "critic": "shared",
            "gae_lambda": ppo.gae_lambda,
            "normalize_advantages": "update" if ppo.normalize_advantages else "none",
            "value_coefficient": ppo.value_loss_coef,
            "value_clip": ppo.clip_range_vf,
            "entropy_coef": ppo.entropy_coef,
            "target_kl": ppo.target_kl,
        }
    else:
        discount = grpo.gamma
        section |= {
            "clip_range": grpo.clip_range,
            "num_iterations": grpo.num_grpo_epochs,
            "scale_rewards": grpo.reward_normalization if grpo.normalize_rewards else "none",
        }
        if grpo.entropy_coef:
            section["trl"]["entropy_coef"] = grpo.entropy_coef
    rollout = {"group_size": group, "groups_per_round": played // group, "discount": discount}
    return {"rounds": iterations, "rollout": rollout, "algorithm": section}


def _batches(played: int, group: int, passes: int) -> str:
    """The sizes of a batch that groups of that size can be shared out to."""
    steps = [n for n in range(1, group + 1) if group % (n * passes) == 0 and played % n == 0]
    return " or ".join(str(played // n) for n in steps) or "fewer passes"


def _stage(
    config: ExperimentConfig, algorithm: str, iterations: int, data: str | None
) -> dict[str, Any]:
    training = config.training
    for name in ("accumulation", *ADAM):
        usual = 1 if name == "accumulation" else TrainingConfig.model_fields[name].default
        if getattr(training, name) != usual:
            said = "gradient_accumulation_steps" if name == "accumulation" else name
            raise ConfigError(f"training.{said}: {algorithm} does not read it: leave it out")
    section: dict[str, Any] = {
        **_optimizer(training),
        "epochs": iterations,
        "batch_size": training.batch_size,
    }
    if data is not None:
        section["data"] = [data]
    if algorithm == "dpo":
        dpo = config.dpo
        smoothed = {"label_smoothing": dpo.label_smoothing} if dpo.label_smoothing else {}
        return {**section, "beta": dpo.beta, "loss": dpo.loss_type, **smoothed}
    sft = config.sft
    if data is None:
        section["episodes"] = min(training.num_rollouts_per_iteration, sft.max_trajectories)
    section["answer_weight"] = 0.0 if sft.mode == "world_model" else sft.bc_weight
    section["observation_weight"] = (
        0.0 if sft.mode == "behavioral_cloning" else sft.world_model_weight
    )
    if sft.filter_low_reward:
        section["min_return"] = sft.min_reward_threshold
    return section


def _optimizer(training: TrainingConfig) -> dict[str, Any]:
    schedule: str = training.lr_scheduler or "constant"
    if schedule == "constant" and training.warmup_steps:
        schedule = "constant_with_warmup"
    return {
        "learning_rate": training.learning_rate,
        "schedule": schedule,
        "warmup_steps": training.warmup_steps,
        "weight_decay": training.weight_decay,
        "max_grad_norm": training.max_grad_norm,
    }


def _model(model: ModelConfig, training: TrainingConfig) -> dict[str, Any]:
    if (model.load_in_4bit or model.load_in_8bit) and not model.use_lora:
        raise ConfigError("model.load_in_4bit, load_in_8bit: they go with use_lora: set it too")
    settings: dict[str, Any] = {
        "base": model.model_name_or_path,
        "device": model.device,
        "dtype": _dtype(model, training),
        "attn_implementation": "flash_attention_2" if model.use_flash_attention else None,
    }
    if model.use_lora:
        settings["adapters"] = {
            "rank": model.lora_r,
            "alpha": float(model.lora_alpha),
            "dropout": model.lora_dropout,
            "target_modules": model.lora_target_modules or "all-linear",
        }
        if model.load_in_4bit or model.load_in_8bit:
            settings["quantization"] = "nf4" if model.load_in_4bit else "int8"
    return settings


def _dtype(model: ModelConfig, training: TrainingConfig) -> str:
    if model.torch_dtype == "float16" or training.use_fp16:
        log.warning(
            "model.torch_dtype float16: training in bfloat16, which takes as much memory and needs "
            "no scaling of the loss"
        )
        return "bfloat16"
    return "bfloat16" if training.use_bf16 or model.torch_dtype == "bfloat16" else "float32"


def _parallel(config: ExperimentConfig) -> str:
    """How the processes share a model, of which there may be one alone."""
    wanted = config.distributed
    started, meant = processes.count(), wanted.num_gpus * wanted.num_nodes
    if not wanted.enabled:
        return "ddp"
    if started == 1:
        number = wanted.num_gpus if meant > 1 else "N"
        nodes = f" --nnodes={wanted.num_nodes}" if wanted.num_nodes > 1 else ""
        log.warning(
            "distributed: one process, which holds the model whole; to share it by %s start "
            "torchrun --nproc_per_node=%s%s -m mrlm.cli train ...",
            wanted.strategy, number, nodes,
        )  # fmt: skip
        return "ddp"
    if meant not in (1, started):
        raise ConfigError(
            f"distributed: num_gpus x num_nodes is {meant} and torchrun started {started}: give "
            f"--nproc_per_node={math.ceil(meant / wanted.num_nodes)}"
        )
    return wanted.strategy
