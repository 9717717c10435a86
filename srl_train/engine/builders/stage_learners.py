"""Builder of those who learn before the rounds, from the section of a stage."""

from __future__ import annotations

from typing import Any

from srl_train.config.learning.offline import DpoConfig, OfflineConfig, SftConfig
from srl_train.learners.trl_dpo import DpoLearner
from srl_train.learners.trl_offline import OfflineLearner
from srl_train.learners.trl_sft import SftLearner

KINDS: dict[type[OfflineConfig], type[OfflineLearner]] = {
    SftConfig: SftLearner,
    DpoConfig: DpoLearner,
}
"""Section -> what trains a model as it says."""


def build_stage_learner(
    section: OfflineConfig, name: str, model: Any, tokenizer: Any, planned_steps: int, seed: int
) -> OfflineLearner:
    """The learner of one model in a stage; `planned_steps` is the length of the learning-rate
    schedule."""
    kind = KINDS[type(section)]
    return kind(name, model, tokenizer, section, planned_steps=planned_steps, seed=seed)
