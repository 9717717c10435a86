"""Documented settings of algorithms, and of the cooperation and competence of models."""

from __future__ import annotations

from contextlib import closing
from dataclasses import fields
from enum import Enum
from typing import Annotated, Any

from pydantic import Field

from core_srl.config import minibatches
from core_srl.settings import settings
from srl_train.config import yaml_file
from srl_train.config.run import RunConfig
from srl_train.environment import build_env
from srl_train.errors import ConfigError
from srl_train.players import matchmaking_of

Share = Annotated[float, Field(ge=0, le=1)]


class RLAlgorithm(Enum):
    """Learning algorithms."""

    PPO = "ppo"
    """PPO with a critic (docs/training/ppo.md)."""
    GRPO = "grpo"
    """GRPO, which compares the episodes of a group."""


class CooperationType(Enum):
    """Kinds of cooperation."""

    NONE = "none"
    TEAM_BASED = "team_based"
    SHARED_REWARDS = "shared_rewards"
    KNOWLEDGE_TRANSFER = "knowledge_transfer"


class CompetenceType(Enum):
    """Baselines that an agent's answers are compared with."""

    GENERAL = "general"
    SPECIALIZED = "specialized"
    ADAPTIVE = "adaptive"


@settings
class CooperationFactor:
    """Kind and amount of cooperation. Raises ConfigError for fields without an effect."""

    cooperation_type: CooperationType = CooperationType.NONE
    cooperation_strength: Share = 0.0
    """TEAM_BASED: share of the team's mean in each reward."""
    team_size: int = 1
    """Unused: the environment defines its teams."""
    shared_reward_ratio: Share = 0.5
    """SHARED_REWARDS: share of the mean of all agents in each reward."""
    knowledge_transfer_rate: Share = 0.1
    """KNOWLEDGE_TRANSFER: share of the mean weights in each model's weights, every round."""
    communication_cost: float = 0.0
    """Unused: no game charges for words."""

    def __post_init__(self) -> None:
        read = {
            CooperationType.TEAM_BASED: "cooperation_strength",
            CooperationType.SHARED_REWARDS: "shared_reward_ratio",
            CooperationType.KNOWLEDGE_TRANSFER: "knowledge_transfer_rate",
        }
        _refuse_unread(self, "cooperation", read.get(self.cooperation_type))


@settings
class CompetenceFactor:
    """Competence of agents. Raises ConfigError for fields without an effect.

    A model's ability is measured (`srl report`), not set; `RLConfig.learning_rate` is the learning
    rate.
    """

    competence_type: CompetenceType = CompetenceType.GENERAL
    base_capability: float = 0.5
    learning_rate: float = 0.01
    adaptation_speed: float = 0.1
    specialization_level: float = 0.0
    experience_decay: Share = 0.95
    """SPECIALIZED: decay of a role's average return per episode."""
    max_capability: float = 1.0

    def __post_init__(self) -> None:
        if self.competence_type is CompetenceType.ADAPTIVE:
            raise ConfigError(
                "competence_factor.competence_type must be 'general' or 'specialized', got "
                "'adaptive': models adapt by learning"
            )
        specialized = self.competence_type is CompetenceType.SPECIALIZED
        _refuse_unread(self, "competence", "experience_decay" if specialized else None)


def factor_settings(
    cooperation: CooperationFactor | None = None, competence: CompetenceFactor | None = None
) -> dict[str, Any]:
    """Return the settings of both factors by dotted name, for `yaml_file.from_tree({}, ...)`.

    Raises:
        ConfigError: If both require a credit assignment.
    """
    factor = cooperation or CooperationFactor()
    kind = factor.cooperation_type
    strength = {
        CooperationType.TEAM_BASED: factor.cooperation_strength,
        CooperationType.SHARED_REWARDS: factor.shared_reward_ratio,
    }.get(kind, 0.0)
    team_based = kind is CooperationType.TEAM_BASED
    found: dict[str, Any] = {
        "mode.name": "cooperative",
        "mode.cooperation_strength": strength,
        "credit.name": "team_joint" if team_based else "per_agent",
    }
    if kind is CooperationType.KNOWLEDGE_TRANSFER:
        found |= {"updates.strategy": "federated", "updates.mix": factor.knowledge_transfer_rate}
    if competence is None or competence.competence_type is CompetenceType.GENERAL:
        return found
    if team_based:
        raise ConfigError(
            "cooperation_type 'team_based' assigns credit by team and competence_type "
            "'specialized' by role: give one of them"
        )
    return {**found, "credit.name": "role", "credit.decay": competence.experience_decay}


def _refuse_unread(factor: Any, kind: str, read: str | None) -> None:
    """Raise ConfigError for a changed field other than the type and the field that it reads."""
    for own in fields(factor):
        value = getattr(factor, own.name)
        if own.name not in (f"{kind}_type", read) and value != own.default:
            raise ConfigError(
                f"{kind}_factor.{own.name} has no effect with this {kind}_type, got {value!r}: "
                "leave it out (docs/training/credit.md)"
            )


@settings
class RLConfig:
    """Documented settings of an algorithm. Raises ConfigError, a ValueError."""

    algorithm: Annotated[RLAlgorithm, Field(strict=False)] = RLAlgorithm.PPO
    """An RLAlgorithm or its value."""
    learning_rate: float = 3e-4
    """Learning rate of AdamW."""
    gamma: Share = 0.99
    """Discount of rewards per step."""
    cooperation_factor: CooperationFactor = Field(default_factory=CooperationFactor)
    """Kind and amount of cooperation."""
    competence_factor: CompetenceFactor = Field(default_factory=CompetenceFactor)
    """Baselines of answers."""
    batch_size: Annotated[int, Field(ge=1)] = 32
    """Limit on the samples of an optimizer step."""

    def __post_init__(self) -> None:
        factor_settings(self.cooperation_factor, self.competence_factor)

    def applied_to(self, config: RunConfig | None = None) -> RunConfig:
        """Return a run's configuration with these settings; by default of a run with defaults.

        Raises:
            ConfigError: If settings are incompatible, or a round's samples cannot be divided into
                steps of batch_size.
        """
        config = config or RunConfig()
        rollout = config.rollout
        with closing(build_env(config)) as env:
            agents = max(map(matchmaking_of(config, env).most_held, config.models.names))
        samples = rollout.episodes * agents
        dotted: dict[str, Any] = {
            "algorithm": {
                "name": self.algorithm.value,
                "learning_rate": self.learning_rate,
                "minibatches": minibatches(samples, self.batch_size, rollout.group_size),
            },
            "rollout.discount": self.gamma,
            **factor_settings(self.cooperation_factor, self.competence_factor),
        }
        replaced = {name.partition(".")[0] for name in dotted if "." in name} - {"rollout"}
        tree = {k: v for k, v in yaml_file.to_tree(config).items() if k not in replaced}
        return yaml_file.from_tree({**tree, "algorithms": {}}, dotted)
