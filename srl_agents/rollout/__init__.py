"""Rollouts: episodes of environments played by policies."""

from srl_agents.rollout.episode_loop import MakeGame, PlaySettings, play, play_many, play_many_async
from srl_agents.rollout.game import (
    ALL_AT_ONCE,
    SpeaksFirst,
    Spectator,
    is_truncated,
    played_action,
    policy_name,
)

__all__ = [
    "ALL_AT_ONCE",
    "MakeGame",
    "PlaySettings",
    "SpeaksFirst",
    "Spectator",
    "is_truncated",
    "play",
    "play_many",
    "play_many_async",
    "played_action",
    "policy_name",
]
