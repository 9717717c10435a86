"""What the learners are told: one frozen dataclass per algorithm, read by its learner alone."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import ClassVar, Literal

from srl_train.config.bounds import above, at_least, default_of, within
from srl_train.errors import ConfigError

CLIPPED_LOSSES = ("dapo", "grpo", "bnpo", "dr_grpo", "luspo")
"""TRL's losses that clip the ratio on both sides; cispo clips it from above only."""

_WANT_MORE = ("cosine_with_min_lr", "warmup_stable_decay")


@dataclass(frozen=True)
class OptimizerConfig:
    """AdamW and its schedule, which every algorithm's section holds its own of."""

    section: ClassVar[str]
    """The section's name in a configuration."""
    reads_trl: ClassVar[bool] = False
    """Whether its learners are handed the `trl` section."""

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
        if self.schedule in _WANT_MORE and not self.reads_trl:
            raise ConfigError(
                f"{self.section}.schedule is {self.schedule!r}, which needs "
                "trl.lr_scheduler_kwargs, read by grpo and ppo only: give another schedule"
            )


@dataclass(frozen=True)
class SurrogateConfig(OptimizerConfig):
    """The clipped surrogate (Schulman et al. 2017), which GRPO and PPO share."""

    reads_trl: ClassVar[bool] = True

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
    """Weight of the divergence from the model as the rounds began; 0 keeps no reference model."""
    loss: Literal["dapo", "grpo", "bnpo", "dr_grpo", "cispo", "sapo", "luspo", "vespo"] = "dapo"
    """TRL's loss_type: how token losses are averaged."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("minibatches", "accumulation", "iterations"):
            at_least(f"{self.section}.{name}", getattr(self, name), 1)
        above(f"{self.section}.clip", self.clip, 0.0)
        if self.clip != SurrogateConfig.clip and self.loss in ("sapo", "vespo"):
            raise ConfigError(
                f"{self.section}.clip is {self.clip}, and the loss {self.loss} clips no ratio: "
                "leave it out"
            )
        at_least(f"{self.section}.beta", self.beta, 0.0)

    def check(self, *, used: bool, group_size: int) -> None:
        """Raise ConfigError where a run with groups of this size cannot have this section.

        `used`: some model learns by it; a section that none reads is left at its defaults.
        """
        name = self.section
        for entry in dataclasses.fields(self):
            if not used and getattr(self, entry.name) != default_of(entry):
                raise ConfigError(
                    f"{name}.{entry.name} is set, but no model learns by {name}: set algorithm or "
                    f"algorithms, or empty the section (--set {name}={{}})"
                )
        # An update may be as small as one group: the others may have failed.
        parts, what = self.minibatches, f"{name}.minibatches is"
        if group_size % parts == 0 and self.accumulation > 1:
            parts, what = parts * self.accumulation, f"{name}.minibatches x accumulation is"
        if used and group_size % parts:
            raise ConfigError(
                f"{what} {parts}: give a divisor of rollout.group_size ({group_size})"
            )


@dataclass(frozen=True)
class GrpoConfig(SurrogateConfig):
    """Group relative policy optimisation (Shao et al. 2024), by TRL's GRPOTrainer."""

    section: ClassVar[str] = "grpo"

    scale_rewards: Literal["group", "batch", "none"] = "group"
    """What advantages are divided by: the group's or the batch's standard deviation, or nothing."""


@dataclass(frozen=True)
class PpoConfig(SurrogateConfig):
    """Proximal policy optimisation (Schulman et al. 2017): a critic in place of the group."""

    section: ClassVar[str] = "ppo"

    minibatches: int = 2
    iterations: int = 2
    critic: Literal["shared", "separate", "central"] = "separate"
    """A value head on the policy's backbone, on a backbone of its own, or a critic that sees the
    joint state."""
    level: Literal["turn", "token"] = "turn"
    """What has a value and an advantage: each answer, or each token of it."""
    gae_lambda: float = 1.0
    """Of the advantages, per turn or per token: 0 trusts the critic, 1 only what was paid."""
    normalise_advantages: Literal["group", "update", "none"] = "group"
    """An update's advantages are scaled to deviation 1 after the mean was taken off: that of the
    same turn in the same group, or of all; or neither is done."""
    value_coefficient: float = 0.05
    """Weight of the value loss."""
    value_clip: float | None = None
    """How far a value may move in one update before its loss is cut off; in units of return."""
    value_learning_rate: float | None = None
    """Of the critic's own parameters; null takes the policy's."""
    critic_warmup: int = 0
    """Updates at the start in which only the critic learns."""
    entropy_coef: float = 0.0
    """Weight of the entropy bonus: the mean entropy per answer token, in nats."""
    target_kl: float | None = None
    """An update stops once the policy is 1.5 times this far from the one that played; in nats per
    answer token."""

    def __post_init__(self) -> None:
        super().__post_init__()
        within("ppo.gae_lambda", self.gae_lambda, 0.0, 1.0)
        at_least("ppo.critic_warmup", self.critic_warmup, 0)
        at_least("ppo.value_coefficient", self.value_coefficient, 0.0)
        at_least("ppo.entropy_coef", self.entropy_coef, 0.0)
        for name in ("value_clip", "value_learning_rate", "target_kl"):
            if getattr(self, name) is not None:
                above(f"ppo.{name}", getattr(self, name), 0.0)
        if self.critic == "central" and self.level == "token":
            raise ConfigError(
                "ppo.level is 'token', ppo.critic is 'central': the joint state changes from turn "
                "to turn only, give 'turn'"
            )
