"""Builder of the learners of offline stages."""

from __future__ import annotations

from typing import Any

from srl_train.config.learning.offline import OfflineConfig
from srl_train.learners import ALGORITHMS
from srl_train.learners.learner import StageLearner


def build_stage_learner(
    section: OfflineConfig, name: str, model: Any, tokenizer: Any, planned_steps: int, seed: int
) -> StageLearner:
    """Build the learner of one model in the stage `section.where`.

    `planned_steps` is the length of the learning-rate schedule.
    """
    learner: StageLearner = ALGORITHMS.load(section.where)(
        name, model, tokenizer, section, planned_steps=planned_steps, seed=seed
    )
    return learner
