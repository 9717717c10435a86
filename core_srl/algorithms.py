"""Documented settings of algorithms, and of the cooperation and competence of models."""

from __future__ import annotations

from contextlib import closing
from enum import Enum
from typing import Annotated, Any, Self

from pydantic import Field, model_validator

from core_srl.config import minibatches
from core_srl.llm_config import refuse_ignored
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
    """Baselines of returns: GENERAL is the algorithm's, SPECIALIZED a moving average by role."""

    GENERAL = "general"
    SPECIALIZED = "specialized"


class CooperationFactor(Section):
    """Kind and amount of cooperation.

    Raises ConfigError if a field that the kind does not use differs from its default.
    """

    cooperation_type: CooperationType = CooperationType.NONE
    cooperation_strength: Share = 0.0
    """TEAM_BASED: share of the team's mean reward in each agent's reward."""
    shared_reward_ratio: Share = 0.5
    """SHARED_REWARDS: share of the mean reward in each agent's reward."""
    knowledge_transfer_rate: Share = 0.1
    """KNOWLEDGE_TRANSFER: share of the mean weights in each model after a round."""

    @model_validator(mode="after")
    def _refuse_ignored(self) -> Self:
        ignored = {
            CooperationType.TEAM_BASED: "cooperation_strength",
            CooperationType.SHARED_REWARDS: "shared_reward_ratio",
            CooperationType.KNOWLEDGE_TRANSFER: "knowledge_transfer_rate",
        }
        ignored.pop(self.cooperation_type, None)
        return refuse_ignored(self, ignored.values(), "cooperation_type")


class CompetenceFactor(Section):
    """Settings of the baseline of an agent's returns (see CompetenceType).

    Raises ConfigError if `experience_decay` differs from its default with competence_type GENERAL.
    """

    competence_type: CompetenceType = CompetenceType.GENERAL
    experience_decay: Share = 0.95
    """SPECIALIZED: weight of a role's previous average return at each episode."""

    @model_validator(mode="after")
    def _refuse_ignored(self) -> Self:
        general = self.competence_type is CompetenceType.GENERAL
        return refuse_ignored(self, ["experience_decay"] * general, "competence_type")


def factor_settings(cooperation: CooperationFactor, competence: CompetenceFactor) -> dict[str, Any]:
    """Return dotted name -> value of RunConfig settings, such as "credit.name".

    The mode is always "cooperative". Raises ConfigError for TEAM_BASED with SPECIALIZED.
    """
    kind = cooperation.cooperation_type
    team_based = kind is CooperationType.TEAM_BASED
    shared = kind is CooperationType.SHARED_REWARDS
    share = cooperation.shared_reward_ratio if shared else cooperation.cooperation_strength
    found: dict[str, Any] = {
        "mode.name": "cooperative",
        "mode.cooperation_strength": share,
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
    """Documented settings of an algorithm; ConfigError for a value not allowed."""

    algorithm: Annotated[RLAlgorithm, Field(strict=False)] = RLAlgorithm.PPO
    learning_rate: float = 3e-4
    gamma: Share = 0.99
    """Discount of rewards per step."""
    cooperation_factor: CooperationFactor = CooperationFactor()
    competence_factor: CompetenceFactor = CompetenceFactor()
    batch_size: Annotated[int, Field(ge=1)] = 32
    """Limit on a model's samples per optimizer step."""

    def applied_to(self, config: RunConfig | None = None) -> RunConfig:
        """Return the configuration of a run with these settings.

        Args:
            config: Other settings (None: the defaults). The sections algorithm, algorithms, mode,
                credit and, for KNOWLEDGE_TRANSFER, updates, and rollout.discount are ignored.

        Raises:
            ConfigError: If settings are incompatible, or batch_size is too small for a round.
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
