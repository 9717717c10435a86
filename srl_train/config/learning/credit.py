"""Reward modes and credit assignment: their configuration sections."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from srl_train.config.section import Section, chosen_by

Fraction = Annotated[float, Field(ge=0, le=1)]


class ModeSection(Section):
    """What the modes share: their formulas are in docs/training/updates.md."""

    CHOICE: ClassVar = "name"


class CooperativeConfig(ModeSection):
    """Each reward is blended with its team's mean."""

    name: Literal["cooperative"] = "cooperative"
    """How rewards are shaped (docs/training/updates.md)."""
    cooperation_strength: Fraction = 0.6
    """Share of the team's mean in each reward, 0 to 1."""


class CompetitiveConfig(ModeSection):
    """Each return gets a bonus for its rank."""

    name: Literal["competitive"] = "competitive"
    """How rewards are shaped (docs/training/updates.md)."""
    competition_intensity: Annotated[float, Field(ge=0)] = 0.4
    """Scale of the rank bonus, in units of an episode's return."""


class MixedConfig(ModeSection):
    """Both, with a balance that moves."""

    name: Literal["mixed"] = "mixed"
    """How rewards are shaped (docs/training/updates.md)."""
    cooperation_strength: Fraction = 0.6
    """Share of the team's mean in each reward, 0 to 1."""
    competition_intensity: Annotated[float, Field(ge=0)] = 0.4
    """Scale of the rank bonus, in units of an episode's return."""


class HierarchicalConfig(ModeSection):
    """A leader speaks first and is paid its team's mean."""

    name: Literal["hierarchical"] = "hierarchical"
    """How rewards are shaped (docs/training/updates.md)."""
    cooperation_strength: Fraction = 0.6
    """Share of the team's mean in each reward, 0 to 1."""
    leader: str | None = None
    """The agent that speaks first; null takes each team's first."""


class PlainMode(ModeSection):
    """The own team's mean less its rivals'; or the environment's own rewards."""

    name: Literal["zero_sum", "raw"]
    """How rewards are shaped (docs/training/updates.md)."""


ModeConfig = Annotated[
    CooperativeConfig | CompetitiveConfig | MixedConfig | HierarchicalConfig | PlainMode,
    Field(discriminator="name"),
    chosen_by("name", "mixed"),
]


class CreditSection(Section):
    """What the assignments share."""

    CHOICE: ClassVar = "name"


class PlainCredit(CreditSection):
    """Assignments without settings; per_agent has algorithm.scale_rewards."""

    name: Literal["per_agent", "leave_one_out"] = "per_agent"
    """Which answer is paid for what (docs/training/credit.md)."""


class ScaledCredit(CreditSection):
    """Assignments that scale their advantages."""

    name: Literal[
        "agent_turn", "team_joint", "round", "hierarchical", "opponent_model", "difference"
    ]
    """Which answer is paid for what (docs/training/credit.md)."""
    scale: Literal["group", "none"] = "group"
    """What advantages are divided by: the deviation of what they are compared with, or nothing."""


class RoleCredit(CreditSection):
    """Compared with the average of the agent's role."""

    name: Literal["role"] = "role"
    """Which answer is paid for what (docs/training/credit.md)."""
    decay: Annotated[float, Field(ge=0, le=1)] = 0.95
    """Share of a role's average return that stays at each game, 0 to 1."""


class AlignmentCredit(CreditSection):
    """Advantage alignment."""

    name: Literal["advantage_alignment"] = "advantage_alignment"
    """Which answer is paid for what (docs/training/credit.md)."""
    scale: Literal["group", "none"] = "group"
    """What advantages are divided by: the deviation of what they are compared with, or nothing."""
    alignment: Annotated[float, Field(ge=0)] = 1.0
    """Weight of the opponents' advantages, 0 or more."""


class CounterfactualCredit(CreditSection):
    """Compared with the game played again with the agent's other actions."""

    name: Literal["counterfactual"] = "counterfactual"
    """Which answer is paid for what (docs/training/credit.md)."""
    scale: Literal["group", "none"] = "group"
    """What advantages are divided by: the deviation of what they are compared with, or nothing."""
    alternatives: Annotated[int, Field(ge=1)] = 3
    """Other legal actions that an answer is compared with at most, drawn at random where there are
    more; each is a replay of the rest of the game."""


CreditConfig = Annotated[
    PlainCredit | ScaledCredit | RoleCredit | AlignmentCredit | CounterfactualCredit,
    Field(discriminator="name"),
    chosen_by("name", "per_agent"),
]
