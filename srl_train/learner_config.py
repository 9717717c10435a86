"""What the learners are told: one frozen dataclass per algorithm, read by its learner alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from srl_train.bounds import above, at_least
from srl_train.errors import ConfigError


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW and its schedule, which every algorithm's section holds its own of."""

    section: ClassVar[str]
    """The section's name in a configuration."""

    learning_rate: float = 3e-3
    """Of AdamW; suits the embedded tiny model, large models want 1e-6 (full) to 1e-4 (LoRA)."""
    schedule: Literal[
        "constant",
        "linear",
        "cosine",
        "constant_with_warmup",
        "cosine_with_restarts",
        "cosine_with_min_lr",
        "polynomial",
        "inverse_sqrt",
        "warmup_stable_decay",
    ] = "constant"
    """Of the learning rate, over the planned optimizer steps (transformers' names)."""
    warmup_steps: int = 0
    """Optimizer steps of linear rise to the learning rate; none with the constant schedule."""
    weight_decay: float = 0.0
    """AdamW's decoupled decay, per unit of learning rate."""
    max_grad_norm: float = 1.0
    """Gradients are clipped to this L2 norm."""

    def __post_init__(self) -> None:
        above(f"{self.section}.learning_rate", self.learning_rate, 0.0)
        at_least(f"{self.section}.warmup_steps", self.warmup_steps, 0)
        at_least(f"{self.section}.weight_decay", self.weight_decay, 0.0)
        above(f"{self.section}.max_grad_norm", self.max_grad_norm, 0.0)
        if self.schedule == "constant" and self.warmup_steps:
            raise ConfigError(
                f"{self.section}.warmup_steps is read by every schedule but 'constant', which "
                f"{self.section}.schedule is"
            )


@dataclass(frozen=True)
class SurrogateConfig(OptimizerConfig):
    """The clipped surrogate (Schulman et al. 2017), which GRPO and PPO share."""

    minibatches: int = 1
    """Parts each update's samples are split into, one optimizer step per part."""
    accumulation: int = 1
    """Passes forward and backward per optimizer step, each with its share of the samples: the
    same step in less memory."""
    iterations: int = 1
    """Passes over each update's samples (mu in the GRPO paper, epochs in PPO's)."""
    clip: float = 0.2
    """Epsilon of the clipped ratio."""
    beta: float = 0.0
    """Weight of the divergence from the starting model; 0 keeps no reference model."""
    loss: Literal["dapo", "grpo", "bnpo", "dr_grpo", "cispo", "sapo", "luspo", "vespo"] = "dapo"
    """TRL's loss_type: how token losses are averaged."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("minibatches", "accumulation", "iterations"):
            at_least(f"{self.section}.{name}", getattr(self, name), 1)
        above(f"{self.section}.clip", self.clip, 0.0)
        at_least(f"{self.section}.beta", self.beta, 0.0)


@dataclass(frozen=True)
class GrpoConfig(SurrogateConfig):
    """Group relative policy optimisation (Shao et al. 2024), by TRL's GRPOTrainer."""

    section: ClassVar[str] = "grpo"

    scale_rewards: Literal["group", "batch", "none"] = "group"
    """What advantages are divided by: the group's or the batch's standard deviation, or nothing."""
