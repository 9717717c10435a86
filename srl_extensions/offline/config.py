"""Sections `sft` and `dpo` of a run's configuration."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from srl_train.config.bounds import MOST_EPISODES
from srl_train.config.learning.learners import NotNegative, Positive
from srl_train.config.stages import StageConfig
from srl_train.errors import ConfigError


class OfflineConfig(StageConfig):
    """Settings that the stages `sft` and `dpo` have in common."""

    RUNNER: ClassVar = "srl_extensions.offline.stages:Stage"

    data_policy: str = "models"
    """Players: a scripted policy or MODULE:CLASS for all agents, or `models`: the run's players of
    each agent, with current weights."""
    episodes: Annotated[int, Field(ge=1, le=MOST_EPISODES)] = 256
    """Number of episodes played if `data` is empty."""
    seats: Literal["own", "all"] = "own"
    """Agents that a model learns from: the model's agents, or all."""
    batch_size: Annotated[int, Field(ge=1, le=MOST_EPISODES)] = 16
    """Samples per optimizer step."""


class SftConfig(OfflineConfig):
    """Supervised learning from episodes by TRL's SFTTrainer; ConfigError if both weights are 0."""

    where: ClassVar[str] = "sft"
    LEARNER: ClassVar = "srl_extensions.offline.learners:SftLearner"

    answer_weight: NotNegative = 1.0
    """Weight of the mean loss on answers (behavior cloning)."""
    observation_weight: NotNegative = 0.0
    """Weight of the mean loss on the observations after answers (a world model)."""
    drop_parse_failures: bool = True
    """If true, unparsable answers are context only and are not imitated."""
    min_return: float | None = None
    """Minimum shaped return of an agent in an episode to learn from."""
    top_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Fraction of these episodes to learn from, the best of each start and agent. Below 1, episodes
    are played in groups of rollout.group_size."""

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        if self.answer_weight == self.observation_weight == 0.0:
            raise ConfigError("answer_weight: must be above 0 if observation_weight is 0, got 0")
        return self


class DpoConfig(OfflineConfig):
    """Direct preference optimization (Rafailov et al. 2023), by TRL's DPOTrainer."""

    where: ClassVar[str] = "dpo"
    LEARNER: ClassVar = "srl_extensions.offline.learners:DpoLearner"

    learning_rate: Positive = 1e-3
    """Learning rate of AdamW, suited to the embedded model; large models require 1e-6 (full) to
    1e-5 (LoRA)."""
    beta: Positive = 0.1
    """Strength of the penalty for leaving the model at the start of the stage."""
    loss: Literal["sigmoid", "hinge", "ipo", "robust", "apo_zero", "apo_down"] = "sigmoid"
    """TRL's loss_type."""
    label_smoothing: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    """Assumed fraction of swapped preferences, for the loss `robust`."""
    min_return_gap: NotNegative = 0.0
    """Difference in mean shaped reward-to-go above which one answer is preferred to another."""

    def check_group_size(self, size: int) -> None:
        """Raise ConfigError if `data` is empty and `episodes` is not a multiple of `size`.

        Args:
            size: Number of episodes per group (rollout.group_size).
        """
        if not self.data and self.episodes % size:
            raise ConfigError(
                f"dpo.episodes must be a multiple of rollout.group_size ({size}), got "
                f"{self.episodes}: answers are compared within groups"
            )
