"""Arguments of TRL's trainers, from the settings of a run."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

from pydantic import ConfigDict, TypeAdapter, ValidationError
from trl import GRPOConfig

from srl_train.config.learning.learners import OptimizerConfig
from srl_train.config.section import shown
from srl_train.errors import ConfigError

_STRICT: ConfigDict = {"strict": True, "allow_inf_nan": False}


def common_arguments(
    config: OptimizerConfig, model: Any, steps: int, accumulation: int = 1
) -> dict[str, Any]:
    """Return the keyword arguments of transformers' TrainingArguments that all learners share.

    `steps` is the number of optimizer steps of the run, `accumulation` that of passes per step.
    """
    return {
        # Required by transformers; nothing is written there.
        "output_dir": str(Path(tempfile.gettempdir()) / "core-srl-unused"),
        "save_strategy": "no",
        "report_to": [],
        "disable_tqdm": True,
        "use_cpu": next(model.parameters()).device.type == "cpu",
        "bf16": False,
        "activation_checkpointing": False,
        "remove_unused_columns": False,
        "dataloader_pin_memory": False,
        "gradient_accumulation_steps": accumulation,
        "max_steps": steps,
        "learning_rate": config.learning_rate,
        "lr_scheduler_type": config.schedule,
        "warmup_steps": config.warmup_steps,
        "weight_decay": config.weight_decay,
        "max_grad_norm": config.max_grad_norm,
    }


def grpo_arguments(arguments: Mapping[str, Any], options: Mapping[str, Any]) -> GRPOConfig:
    """Return TRL's GRPOConfig with the keyword `arguments`, of which `options` replace some.

    `options` is the setting `trl`, with known names. Raises ConfigError for a type or value that
    GRPOConfig does not accept.
    """
    kinds = get_type_hints(GRPOConfig)
    for name, value in options.items():
        try:
            TypeAdapter(kinds[name], config=_STRICT).validate_python(value)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            raise ConfigError(f"trl.{name}: {first['msg']}, got {shown(first['input'])}") from None
    try:
        return GRPOConfig(**{**arguments, **options})
    except (TypeError, ValueError) as error:
        raise ConfigError(f"trl: {error}") from error
