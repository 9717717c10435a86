"""Base class of the sections `sft` and `dpo`: stages that learn from data before the rounds."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from srl_train.config.learning.learners import Count, OptimizerConfig
from srl_train.config.section import Deferred, LocalPath

STAGES = ("sft", "dpo")
"""Fields of RunConfig that are stages, in order of execution."""


class StageConfig(OptimizerConfig):
    """Base class of the sections `sft` and `dpo`: stages that learn from data before the rounds."""

    RUNNER: ClassVar[str]
    """`module:class` that runs the stage, a context manager with a method `train_pass`."""

    data: Annotated[tuple[LocalPath, ...], Field(strict=False)] = ()
    """JSON Lines files of the training data. An empty list plays episodes instead."""
    epochs: Count = 1
    """Number of passes over the data. The update strategy treats a pass as a round."""

    def check_group_size(self, size: int) -> None:
        """Raise ConfigError if groups of `size` episodes do not fit the stage; here do nothing."""


Sft = Annotated[StageConfig, Deferred("srl_extensions.offline.config:SftConfig")]
Dpo = Annotated[StageConfig, Deferred("srl_extensions.offline.config:DpoConfig")]
