"""Cooperation and competence factors of the public API, as keyword arguments of environments.

`factor_settings` turns them into settings by dotted name, for `yaml_file.from_tree({}, ...)`.
What no part of a run could honour is refused: docs/training/credit.md has the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any

from srl_train.config.bounds import within
from srl_train.errors import ConfigError


class CooperationType(Enum):
    """What models share."""

    NONE = "none"
    TEAM_BASED = "team_based"
    SHARED_REWARDS = "shared_rewards"
    KNOWLEDGE_TRANSFER = "knowledge_transfer"


class CompetenceType(Enum):
    """What an agent's answers are judged by."""

    GENERAL = "general"
    SPECIALIZED = "specialized"
    ADAPTIVE = "adaptive"


@dataclass(frozen=True)
class CooperationFactor:
    """What models share, and how much of it. Raises ConfigError for what is not read."""

    cooperation_type: CooperationType = CooperationType.NONE
    cooperation_strength: float = 0.0
    """Team based: share of the team's mean in each reward."""
    team_size: int = 1
    """Teams are the environment's: leave it out."""
    shared_reward_ratio: float = 0.5
    """Shared rewards: share of the mean of all in each reward."""
    knowledge_transfer_rate: float = 0.1
    """Knowledge transfer: share of all models' weights in each model's own, every round."""
    communication_cost: float = 0.0
    """No game charges for words: leave it out."""

    def __post_init__(self) -> None:
        read_by = {
            "cooperation_strength": CooperationType.TEAM_BASED,
            "shared_reward_ratio": CooperationType.SHARED_REWARDS,
            "knowledge_transfer_rate": CooperationType.KNOWLEDGE_TRANSFER,
        }
        unread = {
            "team_size": "who is on which team is the environment's (team_battle's team_size)",
            "communication_cost": "no game charges for words",
        }
        for name, kind in read_by.items():
            within(f"cooperation_factor.{name}", getattr(self, name), 0.0, 1.0)
            if self.cooperation_type is not kind:
                unread[name] = f"it is read with cooperation_type {kind.value!r} only"
        _refuse("cooperation_factor", self, unread)


@dataclass(frozen=True)
class CompetenceFactor:
    """What answers are judged by. Raises ConfigError for what is not read."""

    competence_type: CompetenceType = CompetenceType.GENERAL
    base_capability: float = 0.5
    learning_rate: float = 0.01
    adaptation_speed: float = 0.1
    specialization_level: float = 0.0
    experience_decay: float = 0.95
    """Specialized: what a role's average return keeps of itself at each game."""
    max_capability: float = 1.0

    def __post_init__(self) -> None:
        within("competence_factor.experience_decay", self.experience_decay, 0.0, 1.0)
        if self.competence_type is CompetenceType.ADAPTIVE:
            raise ConfigError(
                "competence_factor.competence_type is 'adaptive': a model adapts by learning, and "
                "no setting says how well; give 'general' or 'specialized'"
            )
        measured = ("base_capability", "max_capability", "adaptation_speed", "specialization_level")
        unread = dict.fromkeys(
            measured, "how able a model is is measured (`srl report`), not set"
        ) | {"learning_rate": "set algorithm.learning_rate"}
        if self.competence_type is not CompetenceType.SPECIALIZED:
            unread["experience_decay"] = "it is read with competence_type 'specialized' only"
        _refuse("competence_factor", self, unread)


def factor_settings(
    cooperation: CooperationFactor | None = None, competence: CompetenceFactor | None = None
) -> dict[str, Any]:
    """The settings that the factors stand for, by dotted name.

    Raises ConfigError where both ask for a credit assignment of their own.
    """
    cooperation = cooperation or CooperationFactor()
    found = _COOPERATION[cooperation.cooperation_type](cooperation)
    if competence is None or competence.competence_type is CompetenceType.GENERAL:
        return found
    if found["credit.name"] != "per_agent":
        raise ConfigError(
            f"cooperation_type {cooperation.cooperation_type.value!r} assigns credit by "
            f"{found['credit.name']} and competence_type 'specialized' by role: give one of them"
        )
    return {**found, "credit.name": "role", "credit.decay": competence.experience_decay}


def _shared(strength: float, credit: str = "per_agent") -> dict[str, Any]:
    return {
        "mode.name": "cooperative",
        "mode.cooperation_strength": strength,
        "credit.name": credit,
    }


_COOPERATION: Mapping[CooperationType, Callable[[CooperationFactor], dict[str, Any]]] = {
    CooperationType.NONE: lambda factor: _shared(0.0),
    CooperationType.TEAM_BASED: lambda factor: _shared(factor.cooperation_strength, "team_joint"),
    CooperationType.SHARED_REWARDS: lambda factor: _shared(factor.shared_reward_ratio),
    CooperationType.KNOWLEDGE_TRANSFER: lambda factor: {
        **_shared(0.0),
        "updates.strategy": "federated",
        "updates.mix": factor.knowledge_transfer_rate,
    },
}


def _refuse(section: str, factor: Any, reasons: Mapping[str, str]) -> None:
    for name, reason in reasons.items():
        if getattr(factor, name) != getattr(type(factor), name):
            raise ConfigError(f"{section}.{name} is {getattr(factor, name)!r}: {reason}")
