"""Settings of the algorithms: PPO, GRPO, DPO and SFT."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from mrlm.config.documented import Documented

Positive = Annotated[float, Field(gt=0)]
NotNegative = Annotated[float, Field(ge=0)]
Share = Annotated[float, Field(ge=0, le=1)]
Count = Annotated[int, Field(ge=1)]
NO_CRITIC = "GRPO compares answers with their group and has no critic: choose the algorithm ppo"


class PPOConfig(Documented):
    """Proximal policy optimisation, with a critic on the model's own backbone."""

    clip_range: Positive = 0.2
    """Epsilon of the clipped ratio."""
    clip_range_vf: Positive | None = None
    """How far a value may move in one update, in units of return; null sets no bound."""
    gamma: Share = 0.99
    """Discount of rewards, per turn."""
    gae_lambda: Share = 0.95
    """Of the advantages, per turn."""
    num_ppo_epochs: Count = 4
    """Passes over an iteration's samples."""
    value_loss_coef: NotNegative = 0.5
    """Weight of the value loss."""
    entropy_coef: NotNegative = 0.01
    """Weight of the entropy bonus, in nats per token."""
    target_kl: Positive | None = None
    """An update stops once the policy is 1.5 times this far from the one that played."""
    normalize_advantages: bool = True
    """An update's advantages get mean 0 and deviation 1."""


class GRPOConfig(Documented):
    """Group relative policy optimisation: answers to one start are compared with each other."""

    ELSEWHERE: ClassVar = {
        "gae_lambda": (0.95, NO_CRITIC),
        "value_loss_coef": (0.5, NO_CRITIC),
        "value_clip_range": (0.2, NO_CRITIC),
        "target_kl": (0.01, "updates are stopped early by PPO alone: choose the algorithm ppo"),
    }

    group_size: Annotated[int, Field(ge=2)] = 4
    """Episodes from one start."""
    gamma: Share = 0.99
    """Discount of rewards, per turn."""
    normalize_rewards: bool = True
    """Whether advantages are divided by a standard deviation."""
    reward_normalization: Literal["group", "batch"] = "group"
    """Whose: the group's, or the whole batch's."""
    temperature: Positive = 1.0
    """Answers are sampled at this temperature."""
    clip_range: Positive = 0.2
    """Epsilon of the clipped ratio."""
    num_grpo_epochs: Count = 1
    """Passes over an iteration's samples."""
    entropy_coef: NotNegative = 0.0
    """Weight of the entropy bonus."""


class DPOConfig(Documented):
    """Direct preference optimisation, from pairs of a better and a worse answer."""

    ELSEWHERE: ClassVar = {
        "reference_free": (False, "the reference is the model as training began"),
    }

    beta: Positive = 0.1
    """How strongly the model is held to what it was."""
    loss_type: Literal["sigmoid", "hinge", "ipo", "robust"] = "sigmoid"
    """Loss of a pair; robust reads label_smoothing."""
    label_smoothing: Annotated[float, Field(ge=0, le=0.5)] = 0.0
    """Share of pairs taken to be the wrong way round."""
    data: str | None = None
    """File of pairs, for `mrlm train`: what PreferenceDataset.to_json writes, or JSON lines of
    prompt, chosen and rejected."""


class SFTConfig(Documented):
    """Supervised learning from games: answers are imitated, what follows them is predicted."""

    ELSEWHERE: ClassVar = {
        "collect_every": (1, "games are played once, when training begins: call train() again"),
    }

    mode: Literal["behavioral_cloning", "world_model", "combined"] = "combined"
    """What is learned: answers, what the environment told next, or both."""
    bc_weight: NotNegative = 0.5
    """Weight of the mean loss on answers."""
    world_model_weight: NotNegative = 0.5
    """Weight of the mean loss on what the environment told next."""
    filter_low_reward: bool = False
    """Learn only from games with at least `min_reward_threshold`."""
    min_reward_threshold: float = 0.0
    """Return of such a game."""
    max_trajectories: Count = 1000
    """Games that are learned from, at most."""
    data: str | None = None
    """File that `mrlm collect` wrote, to learn from in place of new games; its answers are
    imitated."""
