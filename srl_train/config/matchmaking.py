"""Matchmaking: its configuration section."""

from __future__ import annotations

from typing import Literal

from srl_train.config.section import Section


class MatchmakingConfig(Section):
    """Assignment of models to the agents that `seats` does not name (docs/training/populations.md).

    `fixed` assigns all models in turn, `rotating` also moves them by one agent from group to group.
    The others draw models for each group of episodes; there may be more models than agents.
    """

    name: Literal["fixed", "rotating", "uniform", "round_robin"] = "fixed"
    """Assignment of models to agents (docs/training/populations.md)."""
