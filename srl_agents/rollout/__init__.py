"""Rollouts: episodes of environments played by policies."""

from srl_agents.rollout.episode_loop import (
    ALL_AT_ONCE,
    PlaySettings,
    SpeaksFirst,
    Spectator,
    is_truncated,
    play,
    play_many,
    play_many_async,
    played_action,
    policy_name,
)

__all__ = [
    "ALL_AT_ONCE",
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
