"""Stages of learning from data before the rounds: the base class of their sections."""

from __future__ import annotations

from typing import Annotated, ClassVar

from srl_train.config.learning.learners import Count, OptimizerConfig
from srl_train.config.section import Deferred, Names

STAGES = ("sft", "dpo")
"""Fields of RunConfig that are stages, in the order of execution."""


class StageConfig(OptimizerConfig):
    """Base class of the section of a stage; `where` is its field in RunConfig."""

    RUNNER: ClassVar[str]
    """`module:class` that runs the stage, see `Trainer.train_stages`."""

    data: Names = ()
    """JSON-lines files to learn from; without files, the stage plays episodes."""
    epochs: Count = 1
    """Passes over the data; the update strategy applies after each."""

    def check_group_size(self, size: int) -> None:
        """Raise ConfigError if episodes of the stage do not fit `rollout.group_size`."""


Sft = Annotated[StageConfig, Deferred("srl_extensions.offline.config:SftConfig")]
Dpo = Annotated[StageConfig, Deferred("srl_extensions.offline.config:DpoConfig")]
