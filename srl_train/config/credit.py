"""The `credit` section of a configuration."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from srl_train.config.bounds import at_least, refuse_unread, within
from srl_train.errors import ConfigError


@dataclass(frozen=True)
class CreditConfig:
    """Which answer of which seat is paid for what came of a game."""

    name: Literal[
        "per_agent",
        "agent_turn",
        "team_joint",
        "role",
        "hierarchical",
        "leave_one_out",
        "advantage_alignment",
        "opponent_model",
    ] = "per_agent"
    """See docs/credit.md for the formulas."""
    scale: Literal["group", "none"] = "group"
    """What advantages are divided by: the deviation of what they are compared with, or nothing;
    per_agent has grpo.scale_rewards instead."""
    decay: float = 0.95
    """Role: share of a role's average return that stays at each game, 0 to 1."""
    alignment: float = 1.0
    """Advantage alignment: weight of the opponents' advantages, 0 or more."""

    def __post_init__(self) -> None:
        within("credit.decay", self.decay, 0.0, 1.0)
        at_least("credit.alignment", self.alignment, 0.0)
        turns = ("agent_turn", "advantage_alignment", "opponent_model")
        readers = {
            "scale": (*turns, "team_joint", "hierarchical"),
            "decay": ("role",),
            "alignment": ("advantage_alignment",),
        }
        refuse_unread("credit", self, "name", readers)

    def check(self, mode: str, scale_rewards: str) -> None:
        """Raise ConfigError where a run with this mode and grpo.scale_rewards cannot have it."""
        if self.name != "per_agent" and scale_rewards != "group":
            raise ConfigError(
                f"grpo.scale_rewards is {scale_rewards!r} and read by credit.name per_agent only, "
                f"which is {self.name!r}: set credit.scale"
            )
        if self.name == "hierarchical" and mode != "hierarchical":
            raise ConfigError(
                f"credit.name is 'hierarchical' and mode.name is {mode!r}: nobody leads; set "
                "mode.name to 'hierarchical'"
            )
        if self.name == "opponent_model" and mode == "hierarchical":
            raise ConfigError(
                "credit.name is 'opponent_model' and mode.name is 'hierarchical': followers that "
                "hear their leader do not choose at the same time; give another of the two"
            )
