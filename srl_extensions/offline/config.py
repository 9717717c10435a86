"""Sections `sft` and `dpo` of a run's configuration."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from srl_train.config.bounds import MOST_EPISODES
from srl_train.config.learning.learners import NotNegative, Positive
from srl_train.config.stages import StageConfig
from srl_train.errors import ConfigError


class OfflineConfig(StageConfig):
    """Fields of both stages."""

    READ_WHERE: ClassVar = StageConfig.READ_WHERE | {
        name: ("games are played, data being left out", lambda own: not own.data)
        for name in ("data_policy", "episodes")
    }
    RUNNER: ClassVar = "srl_extensions.offline.stages:Stage"

    data_policy: str = "models"
    """Players of these games: a scripted policy or MODULE:CLASS for every agent, or `models`: the
    players of `seats`, with the current weights of each model."""
    episodes: Annotated[int, Field(ge=1, le=MOST_EPISODES)] = 256
    """How many games are played."""
    seats: Literal["own", "all"] = "own"
    """Whose part of the games a model learns from: that of its own agents, or every agent's."""
    batch_size: Annotated[int, Field(ge=1, le=MOST_EPISODES)] = 16
    """Samples per optimizer step."""


class SftConfig(OfflineConfig):
    """Supervised learning from episodes, by TRL's SFTTrainer (docs/training/offline.md)."""

    where: ClassVar[str] = "sft"

    answer_weight: NotNegative = 1.0
    """Of the mean loss on answers (behaviour cloning)."""
    observation_weight: NotNegative = 0.0
    """Of the mean loss on what the environment told next (a world model)."""
    drop_parse_failures: bool = True
    """Answers that could not be read are not imitated; they stay as context."""
    min_return: float | None = None
    """Learn only from an agent's part of a game with at least this return, as the mode pays it."""
    top_fraction: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Learn only from this fraction of these parts, the best returns of each start and agent first;
    games are played in groups of rollout.group_size then."""

    @model_validator(mode="after")
    def _check_weights(self) -> Self:
        if self.answer_weight == self.observation_weight == 0.0:
            raise ConfigError("answer_weight: must be above 0 if observation_weight is 0, got 0")
        return self


class DpoConfig(OfflineConfig):
    """Direct preference optimization (Rafailov et al. 2023), by TRL's DPOTrainer."""

    READ_WHERE: ClassVar = OfflineConfig.READ_WHERE | {
        "label_smoothing": ("loss is 'robust'", lambda own: own.loss == "robust"),
    }
    where: ClassVar[str] = "dpo"

    learning_rate: Positive = 1e-3
    """Of AdamW; suits the embedded tiny model, large models want 1e-6 (full) to 1e-5 (LoRA)."""
    beta: Positive = 0.1
    """How strongly the model is held to what it was when the stage began."""
    loss: Literal["sigmoid", "hinge", "ipo", "robust", "apo_zero", "apo_down"] = "sigmoid"
    """TRL's loss_type."""
    label_smoothing: Annotated[float, Field(ge=0, lt=0.5)] = 0.0
    """Fraction of preferences taken to be the wrong way round, for the loss `robust`."""
    min_return_gap: NotNegative = 0.0
    """An answer is better where its mean return, as the mode pays it, is higher by more than
    this."""

    def check_group_size(self, size: int) -> None:
        """Raise ConfigError if a group of played episodes would be incomplete."""
        if not self.data and self.episodes % size:
            raise ConfigError(
                f"dpo.episodes must be a multiple of rollout.group_size ({size}), got "
                f"{self.episodes}: answers are compared within groups"
            )
