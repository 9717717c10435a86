"""What the stages before the rounds are told: learning from data, by SFT and by DPO."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from srl_train.config.bounds import above, at_least, within
from srl_train.config.learners import OptimizerConfig
from srl_train.errors import ConfigError


@dataclass(frozen=True)
class OfflineConfig(OptimizerConfig):
    """A stage that learns from data before the rounds: where the data come from, for how long."""

    data: tuple[str, ...] = ()
    """Files to learn from, JSON lines; without any, games are played when the stage begins."""
    players: str = "models"
    """Who plays these games: a classic policy in every seat, or 'models': the run as it is seated,
    each model as it stands."""
    episodes: int = 256
    """How many games are played."""
    seats: Literal["own", "all"] = "own"
    """Whose part of the games a model learns from: that of its own seats, or every seat's."""
    epochs: int = 1
    """Passes over the data; after each, models meet as the update strategy says."""
    batch_size: int = 16
    """Samples per optimizer step."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("episodes", "epochs", "batch_size"):
            at_least(f"{self.section}.{name}", getattr(self, name), 1)
        if self.data:
            for name, default in (("players", "models"), ("episodes", 256)):
                if getattr(self, name) != default:
                    raise ConfigError(
                        f"{self.section}.{name} is read where no data is given, "
                        f"{self.section}.data names {len(self.data)} file(s): leave one of them out"
                    )


@dataclass(frozen=True)
class SftConfig(OfflineConfig):
    """Supervised learning from episodes, by TRL's SFTTrainer; formulas in docs/offline.md."""

    section: ClassVar[str] = "sft"

    answer_weight: float = 1.0
    """Of the mean loss on answers (behaviour cloning)."""
    observation_weight: float = 0.0
    """Of the mean loss on what the environment told next (a world model)."""
    readable_only: bool = True
    """Answers that could not be read are not imitated; they stay as context."""
    min_return: float | None = None
    """Learn only from a seat's part of a game with at least this return, as the mode pays it."""
    top_share: float = 1.0
    """Learn only from this share of these parts, the best returns of each start and seat first;
    games are played in groups of rollout.group_size then."""

    def __post_init__(self) -> None:
        super().__post_init__()
        at_least("sft.answer_weight", self.answer_weight, 0.0)
        at_least("sft.observation_weight", self.observation_weight, 0.0)
        if self.answer_weight == self.observation_weight == 0.0:
            raise ConfigError(
                "sft.answer_weight and sft.observation_weight are both 0: one has to be above"
            )
        above("sft.top_share", self.top_share, 0.0)
        within("sft.top_share", self.top_share, 0.0, 1.0)


@dataclass(frozen=True)
class DpoConfig(OfflineConfig):
    """Direct preference optimisation (Rafailov et al. 2023), by TRL's DPOTrainer."""

    section: ClassVar[str] = "dpo"

    learning_rate: float = 1e-3
    """Of AdamW; suits the embedded tiny model, large models want 1e-6 (full) to 1e-5 (LoRA)."""
    beta: float = 0.1
    """How strongly the model is held to what it was when the stage began."""
    loss: Literal[
        "sigmoid",
        "hinge",
        "ipo",
        "exo_pair",
        "nca_pair",
        "robust",
        "bco_pair",
        "sppo_hard",
        "aot",
        "aot_unpaired",
        "apo_zero",
        "apo_down",
        "discopop",
        "sft",
        "sigmoid_norm",
    ] = "sigmoid"
    """TRL's loss_type."""
    label_smoothing: float = 0.0
    """Share of preferences that are taken to be the wrong way round; robust, exo_pair and aot."""
    margin: float = 0.0
    """An answer is better where its mean return, as the mode pays it, is higher by more than
    this."""

    def __post_init__(self) -> None:
        super().__post_init__()
        above("dpo.beta", self.beta, 0.0)
        within("dpo.label_smoothing", self.label_smoothing, 0.0, 0.5)
        at_least("dpo.margin", self.margin, 0.0)
        smoothed = ("robust", "exo_pair", "aot", "aot_unpaired")
        if self.label_smoothing and self.loss not in smoothed:
            raise ConfigError(
                f"dpo.label_smoothing is read by {', '.join(smoothed)} only, "
                f"dpo.loss is {self.loss!r}"
            )
        if self.loss == "exo_pair" and not self.label_smoothing:
            raise ConfigError("dpo.label_smoothing is 0: exo_pair needs more than 0, such as 1e-3")

    def check(self, *, group_size: int, second_reference: bool) -> None:
        """Raise ConfigError where the rest of a configuration does not go with this section.

        `second_reference` says that adapters already have a reference beside them.
        """
        if not self.data and self.episodes % group_size:
            raise ConfigError(
                f"dpo.episodes is {self.episodes}: give a multiple of rollout.group_size "
                f"({group_size}), answers are compared within groups"
            )
        if second_reference:
            raise ConfigError(
                "dpo and a beta above 0 both keep a reference adapter: with models.adapters give "
                "one of them"
            )
