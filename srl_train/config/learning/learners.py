"""Sections of the optimizer and of the algorithms, and the options that are passed on to TRL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, field_validator

from srl_train.config.bounds import MOST_PASSES
from srl_train.config.section import Listed, Section, chosen_by, nearest
from srl_train.errors import ConfigError
from srl_train.learners import ALGORITHMS

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1, le=MOST_PASSES)]

CLIPPED_LOSSES = ("dapo", "grpo", "bnpo", "dr_grpo", "luspo")
"""TRL's losses that clip the ratio on both sides; cispo clips it from above only."""
TRL_OPTIONS = (
    "lr_scheduler_kwargs",
    "optim",
    "optim_args",
    "adam_beta1",
    "adam_beta2",
    "adam_epsilon",
    "bf16",
    "tf32",
    "activation_checkpointing",
    "torch_empty_cache_steps",
    "router_aux_loss_coef",
    "disable_dropout",
    "cast_lm_head_to_fp32",
    "max_completion_length",
    "pad_to_multiple_of",
    "delta",
    "epsilon_high",
    "sapo_temperature_neg",
    "sapo_temperature_pos",
    "vespo_k_pos",
    "vespo_lambda_pos",
    "vespo_k_neg",
    "vespo_lambda_neg",
    "importance_sampling_level",
    "mask_truncated_completions",
    "top_entropy_quantile",
    "entropy_coef",
    "off_policy_mask_threshold",
    "use_bias_correction_kl",
)
"""Options of TRL's GRPOConfig that the loss, the optimizer or the forward pass of a learner reads.
TRL documents them; their types are checked when the learner is built."""


class OptimizerConfig(Section):
    """AdamW and its schedule, which everything that learns has its own of."""

    READ_WHERE: ClassVar = {
        "warmup_steps": ("schedule is not 'constant'", lambda own: own.schedule != "constant"),
    }
    where: ClassVar[str]
    """The section's name in a configuration."""
    LEARNER: ClassVar[str]
    """`module:class` of the learner, a srl_train.learners.learner.Learner."""

    learning_rate: Positive = 3e-3
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
    warmup_steps: Annotated[int, Field(ge=0)] = 0
    """Optimizer steps of linear rise to the learning rate; every schedule but constant."""
    weight_decay: NotNegative = 0.0
    """AdamW's decoupled decay, per unit of learning rate."""
    max_grad_norm: Positive = 1.0
    """L2 norm that gradients are clipped to."""


class SurrogateConfig(OptimizerConfig):
    """Base class of the section `algorithm`: the clipped surrogate (Schulman et al. 2017)."""

    CHOICE: ClassVar = "name"
    READ_WHERE: ClassVar = OptimizerConfig.READ_WHERE | {
        "clip_range": (
            "the loss clips a ratio, which sapo and vespo do not",
            lambda own: own.loss not in ("sapo", "vespo"),
        ),
        "sampler_correction": (
            "the loss has no weights of its own, as vespo has",
            lambda own: own.loss != "vespo",
        ),
        "reference": ("beta is above 0", lambda own: own.beta),
        "reference_every": ("reference is 'moving'", lambda own: own.reference == "moving"),
    }
    where: ClassVar[str] = "algorithm"
    OWN_ADVANTAGES: ClassVar[bool] = False
    """True if the learner computes the advantages from rewards, instead of a credit scheme."""

    name: str
    """Name of the algorithm in ALGORITHMS."""
    minibatches: Count = 1
    """Parts an update's samples are split into, one optimizer step each; a divisor of
    rollout.group_size."""
    gradient_accumulation_steps: Count = 1
    """Passes forward and backward per optimizer step: the same step in less memory."""
    num_iterations: Count = 1
    """Passes over each update's samples (mu in the GRPO paper, epochs in PPO's)."""
    clip_range: Positive = 0.2
    """Epsilon of the clipped ratio."""
    beta: NotNegative = 0.0
    """Weight of the divergence from the reference; 0 keeps none."""
    reference: Literal["base", "stage", "moving"] = "stage"
    """What the divergence is from: the model as it was loaded, as the rounds began (after `sft` and
    `dpo`), or that and then as it was at its last update whose number is a multiple of
    reference_every (docs/training/self_play.md)."""
    reference_every: Count = 20
    """The model's updates between two moves of a `moving` reference."""
    loss: Literal["dapo", "grpo", "bnpo", "dr_grpo", "cispo", "sapo", "luspo", "vespo"] = "dapo"
    """TRL's loss_type: how token losses are averaged. For cispo, trl.epsilon_high is the largest
    ratio itself (ScaleRL's value is 5.0; clip_range if not given)."""
    sampler_correction: Literal["none", "tis", "mis"] = "none"
    """For log-probabilities as sampled that differ from the trainer's own, as in bfloat16 or from
    older weights: tokens are weighed by their ratio cut off at sampler_cap (tis), or left out above
    it (mis); none clips the ratio to them, of other engines and older weights alone."""
    sampler_cap: Annotated[float, Field(gt=1)] = 3.0
    """Largest ratio of the trainer's probability to the sampler's, for the correction."""
    trl: Annotated[
        Mapping[str, Any],
        Field(json_schema_extra={"propertyNames": {"enum": list(TRL_OPTIONS)}}),
    ] = {}
    """Further options of TRL's GRPOConfig, such as `epsilon_high: 0.28`."""

    @property
    def reads_states(self) -> bool:
        """True if the learner reads the joint state before each step."""
        return False

    @property
    def own_units(self) -> bool:
        """True if parameters are in units of the model's returns, so that models differ in them."""
        return False

    @field_validator("trl", mode="before")
    @classmethod
    def _name_nearest(cls, options: Any) -> Any:
        for name in options if isinstance(options, Mapping) else ():
            if name in cls.model_fields:
                raise ConfigError(f"{name}: it is set by algorithm.{name}")
            if name not in TRL_OPTIONS:
                raise ConfigError(f"{name}: unknown option of TRL: {nearest(name, TRL_OPTIONS)}")
        return options

    def check_group_size(self, path: str, group_size: int) -> None:
        """Raise ConfigError if an update of one group cannot be split; `path` is the section."""
        parts = self.minibatches * self.gradient_accumulation_steps
        if group_size % parts:
            raise ConfigError(
                f"{path}.minibatches x gradient_accumulation_steps: got {parts}: give a divisor of "
                f"rollout.group_size ({group_size})"
            )


class GrpoConfig(SurrogateConfig):
    """Group relative policy optimisation (Shao et al. 2024), by TRL's GRPOTrainer."""

    LEARNER: ClassVar = "srl_train.learners.trl_grpo:GrpoLearner"

    name: Literal["grpo"] = "grpo"
    """What models learn by."""
    scale_rewards: Literal["group", "batch", "none"] = "group"
    """Divisor of the advantages: the standard deviation of the group or of the batch, or none.
    Credit schemes other than per_agent support `group` and `none`."""


SECTION = GrpoConfig

AlgorithmConfig = Annotated[SurrogateConfig, Listed(ALGORITHMS), chosen_by("name", "grpo")]
"""The section of an algorithm in ALGORITHMS; its module is imported when it is named."""
