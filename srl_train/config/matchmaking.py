"""Matchmaking: its configuration section."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from srl_train.config.section import Section, chosen_by


class MatchmakingSection(Section):
    """What the kinds of matchmaking share."""

    CHOICE: ClassVar = "name"


class FixedConfig(MatchmakingSection):
    """The models are dealt to the agents that `seats` leaves, in turn, for the whole run."""

    name: Literal["fixed"] = "fixed"
    """Who plays the agents that `seats` leaves in a group of games: all models, dealt in turn
    (`fixed`), or models that are drawn, of which there may be more (docs/training/populations.md).
    """
    rotate: bool = False
    """Whether the models move on by one of these agents from group to group."""


class DrawnConfig(MatchmakingSection):
    """Models are drawn for every group of games."""

    name: Literal["uniform", "round_robin", "rating"] = "uniform"
    """Who plays the agents that `seats` leaves in a group of games: all models, dealt in turn
    (`fixed`), or models that are drawn, of which there may be more (docs/training/populations.md).
    """


MatchmakingConfig = Annotated[
    FixedConfig | DrawnConfig, Field(discriminator="name"), chosen_by("name", "fixed")
]
