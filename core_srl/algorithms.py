"""Documented settings of algorithms, and of the cooperation and competence of models."""

from __future__ import annotations

from contextlib import closing
from enum import Enum
from typing import Annotated, Any

from pydantic import Field

from core_srl.config import minibatches
from srl_train.config import yaml_file
from srl_train.config.run import RunConfig
from srl_train.config.section import Section
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
    """Kinds of cooperation: credit by team, shared rewards, or averaged weights."""

    NONE = "none"
    TEAM_BASED = "team_based"
    SHARED_REWARDS = "shared_rewards"
    KNOWLEDGE_TRANSFER = "knowledge_transfer"


class CompetenceType(Enum):
    """Baselines that an agent's answers are compared with."""

    GENERAL = "general"
    SPECIALIZED = "specialized"


class CooperationFactor(Section):
    """Kind and amount of cooperation; each amount applies to one kind."""

    cooperation_type: CooperationType = CooperationType.NONE
    cooperation_strength: Share = 0.0
    """TEAM_BASED: share of the team's mean in each reward."""
    shared_reward_ratio: Share = 0.5
    """SHARED_REWARDS: share of the mean of all agents in each reward."""
    knowledge_transfer_rate: Share = 0.1
    """KNOWLEDGE_TRANSFER: share of the mean weights in each model's weights, every round."""


class CompetenceFactor(Section):
    """Baselines that an agent's answers are compared with; abilities are measured, not set."""

    competence_type: CompetenceType = CompetenceType.GENERAL
    experience_decay: Share = 0.95
    """SPECIALIZED: decay of a role's average return per episode."""


def factor_settings(cooperation: CooperationFactor, competence: CompetenceFactor) -> dict[str, Any]:
    """Return the settings of a RunConfig that both factors determine, by dotted name.

    Raises:
        ConfigError: For TEAM_BASED with SPECIALIZED, which require different credit schemes.
    """
    kind = cooperation.cooperation_type
    team_based = kind is CooperationType.TEAM_BASED
    shares = {
        CooperationType.TEAM_BASED: cooperation.cooperation_strength,
        CooperationType.SHARED_REWARDS: cooperation.shared_reward_ratio,
    }
    found: dict[str, Any] = {
        "mode.name": "cooperative",
        "mode.cooperation_strength": shares.get(kind, 0.0),
        "credit.name": "team_joint" if team_based else "per_agent",
    }
    if kind is CooperationType.KNOWLEDGE_TRANSFER:
        rate = cooperation.knowledge_transfer_rate
        found |= {"updates.strategy": "federated", "updates.mix": rate}
    if competence.competence_type is CompetenceType.GENERAL:
        return found
    if team_based:
        raise ConfigError(
            "cooperation_type 'team_based' assigns credit by team and competence_type "
            "'specialized' by role: give one of them"
        )
    return {**found, "credit.name": "role", "credit.decay": competence.experience_decay}


class RLConfig(Section):
    """Documented settings of an algorithm.

    Raises:
        ConfigError: For a value that is not allowed. It is a ValueError.
    """

    algorithm: Annotated[RLAlgorithm, Field(strict=False)] = RLAlgorithm.PPO
    learning_rate: float = 3e-4
    gamma: Share = 0.99
    """Discount of rewards per step."""
    cooperation_factor: CooperationFactor = CooperationFactor()
    competence_factor: CompetenceFactor = CompetenceFactor()
    batch_size: Annotated[int, Field(ge=1)] = 32
    """Limit on the samples of an optimizer step; a sample is one agent's part of an episode."""

    def applied_to(self, config: RunConfig | None = None) -> RunConfig:
        """Return a copy of a run's configuration in which these settings are replaced.

        Args:
            config: Configuration of the run; None selects the default RunConfig.

        Raises:
            ConfigError: If settings are incompatible, or no number of equal optimizer steps keeps a
                round's samples within batch_size per step.
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
