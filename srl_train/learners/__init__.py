"""Trainable models: the Learner protocol and its implementations on TRL's trainers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from srl_envs.tables import Plugin, PluginTable
from srl_train.errors import ConfigError

if TYPE_CHECKING:
    from srl_train.config.stages import StageConfig
    from srl_train.learners.learner import StageLearner

ALGORITHMS = PluginTable(
    "core_srl.algorithms",
    {
        "grpo": Plugin("srl_train.learners.trl_grpo:GrpoLearner"),
        "ppo": Plugin("srl_train.learners.trl_ppo:PpoLearner"),
        "sft": Plugin("srl_extensions.offline.learners:SftLearner"),
        "dpo": Plugin("srl_extensions.offline.learners:DpoLearner"),
    },
    ConfigError,
)
"""Learner classes by name. TRL is imported when a class is loaded."""


def build_stage_learner(
    section: StageConfig, name: str, model: Any, tokenizer: Any, planned_steps: int, seed: int
) -> StageLearner:
    """Build the learner of one model in the stage `section.where`."""
    learner: StageLearner = ALGORITHMS.load(section.where)(
        name, model, tokenizer, section, planned_steps=planned_steps, seed=seed
    )
    return learner
