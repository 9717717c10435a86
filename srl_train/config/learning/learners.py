"""Sections of the optimizer and of the algorithms, and the options that are passed to TRL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from srl_train.config.bounds import MOST_PASSES
from srl_train.config.section import FROM_TRL, Deferred, Section, chosen_by, nearest
from srl_train.errors import ConfigError
from srl_train.learners import ALGORITHMS

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1, le=MOST_PASSES)]

Schedule = Literal[
    "constant", "linear", "cosine", "constant_with_warmup", "cosine_with_restarts",
    "cosine_with_min_lr", "polynomial", "inverse_sqrt", "warmup_stable_decay",
]  # fmt: skip

CLIPPED_LOSSES = ("dapo", "grpo", "bnpo", "dr_grpo", "luspo")
"""TRL's losses that clip the ratio from both sides. cispo clips it from above only."""
TRL_OPTIONS = (
    "lr_scheduler_kwargs", "optim", "optim_args", "adam_beta1", "adam_beta2", "adam_epsilon",
    "bf16", "tf32", "activation_checkpointing", "torch_empty_cache_steps", "router_aux_loss_coef",
    "disable_dropout", "cast_lm_head_to_fp32", "max_completion_length", "pad_to_multiple_of",
    "delta", "epsilon_high", "sapo_temperature_neg", "sapo_temperature_pos", "vespo_k_pos",
    "vespo_lambda_pos", "vespo_k_neg", "vespo_lambda_neg", "importance_sampling_level",
    "mask_truncated_completions", "top_entropy_quantile", "entropy_coef",
    "off_policy_mask_threshold", "use_bias_correction_kl",
)  # fmt: skip
"""Options of TRL's GRPOConfig that the loss, the optimizer or the forward pass of a learner reads.
TRL documents them; their types are checked when the learner is built."""


class OptimizerConfig(Section):
    """Settings of AdamW and its learning-rate schedule, the base of algorithms and stages."""

    where: ClassVar[str]
    """Dotted name of the section in a configuration."""
    LEARNER: ClassVar[str]
    """`module:class` of the learner, a srl_train.learners.learner.Learner."""

    learning_rate: Positive = 3e-3
    """Learning rate of AdamW. The default suits the embedded tiny model; large models require 1e-6
    (all weights) to 1e-4 (LoRA)."""
    schedule: Schedule = "constant"
    """Learning-rate schedule over all planned optimizer steps, one of transformers' names."""
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    """Number of optimizer steps of linear warmup, without effect for the schedule constant."""
    weight_decay: NotNegative = 0.0
    """Weight decay coefficient of AdamW."""
    max_grad_norm: Positive = 1.0
    """Maximum L2 norm of the gradients; larger gradients are scaled down."""


class SurrogateConfig(OptimizerConfig):
    """Settings shared by GRPO and PPO: the clipped surrogate loss (Schulman et al. 2017)."""

    CHOICE: ClassVar = "name"
    ELSEWHERE: ClassVar = FROM_TRL
    where: ClassVar[str] = "algorithm"
    OWN_ADVANTAGES: ClassVar[bool] = False
    """True if the learner computes the advantages from rewards, instead of a credit scheme."""

    name: str
    """Name of the algorithm in ALGORITHMS."""
    minibatches: Count = 1
    """Number of optimizer steps per pass over an update's samples, a divisor of
    rollout.group_size."""
    gradient_accumulation_steps: Count = 1
    """Number of forward and backward passes per optimizer step. More passes require less memory,
    but more time with small models."""
    num_iterations: Count = 1
    """Number of passes over each update's samples (mu in the GRPO paper, epochs in PPO)."""
    clip_range: Positive = 0.2
    """Clipping range epsilon of the probability ratio; trl.epsilon_high replaces it above 1."""
    beta: NotNegative = 0.0
    """Weight of the KL divergence from the reference model. 0 loads no reference model."""
    reference: Literal["base", "stage", "moving"] = "stage"
    """Reference model of the KL divergence: the model as loaded (`base`), after `sft` and `dpo`
    (`stage`), or a copy that is renewed every reference_every updates (`moving`,
    docs/training/self_play.md)."""
    reference_every: Count = 20
    """Number of updates after which the reference `moving` is replaced by the current model."""
    loss: Literal["dapo", "grpo", "bnpo", "dr_grpo", "cispo", "sapo", "luspo", "vespo"] = "dapo"
    """Loss, TRL's loss_type. For cispo, trl.epsilon_high is the upper bound of the ratio itself
    (5.0 in ScaleRL, clip_range by default)."""
    sampler_correction: Literal["none", "tis", "mis"] = "none"
    """Importance-sampling correction for log-probabilities that differ between sampler and trainer:
    `tis` truncates the ratio of a token at sampler_cap, `mis` masks tokens above it, `none`
    disables it."""
    sampler_cap: Annotated[float, Field(gt=1)] = 3.0
    """Maximum ratio of the trainer's probability to the sampler's for sampler_correction, above
    1."""
    trl: Mapping[str, Any] = {}
    """Additional options of TRL's GRPOConfig by name, such as `epsilon_high: 0.28`."""

    @property
    def reads_states(self) -> bool:
        """True if the learner reads the environment's joint state; False unless overridden."""
        return False

    @property
    def own_units(self) -> bool:
        """True if weights are scaled to a model's returns and cannot be averaged; here False."""
        return False

    @field_validator("trl", mode="before")
    @classmethod
    def _refuse_unknown_options(cls, options: Any) -> Any:
        for name in options if isinstance(options, Mapping) else ():
            if name in cls.model_fields:
                raise ConfigError(f"{name}: set algorithm.{name} instead")
            if name not in TRL_OPTIONS:
                raise ConfigError(f"{name}: unknown option of TRL; {nearest(name, TRL_OPTIONS)}")
        return options

    def check_group_size(self, path: str, group_size: int, processes: int) -> None:
        """Raise ConfigError, which begins with the section's name `path`, unless the size fits.

        It must be a multiple of minibatches x gradient_accumulation_steps x torchrun processes.
        """
        parts = self.minibatches * self.gradient_accumulation_steps * processes
        if group_size % parts:
            shared = f" x {processes} processes" if processes > 1 else ""
            raise ConfigError(
                f"{path}.minibatches x gradient_accumulation_steps{shared}: must be a divisor of "
                f"rollout.group_size ({group_size}), got {parts}"
            )


class GrpoConfig(SurrogateConfig):
    """Group relative policy optimization (Shao et al. 2024), by TRL's GRPOTrainer."""

    LEARNER: ClassVar = "srl_train.learners.trl_grpo:GrpoLearner"

    name: Literal["grpo"] = "grpo"
    """Algorithm of the models in training: `grpo`, or `ppo` (docs/training/ppo.md)."""
    scale_rewards: Literal["group", "batch", "none"] = "group"
    """Standard deviation by which advantages are divided: of the group, of the batch, or none.
    Credit schemes other than per_agent require `group` or `none`."""


SECTION = GrpoConfig

AlgorithmConfig = Annotated[SurrogateConfig, Deferred(ALGORITHMS), chosen_by("name", "grpo")]
"""The section of an algorithm in ALGORITHMS; its module is imported when it is named."""
