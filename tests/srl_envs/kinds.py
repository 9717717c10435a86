"""One environment of each kind, for tests of behavior that all names of a kind share."""

GAMES = (
    "coop_compete_v0", "team_battle_v0", "staged_v0", "bandit_v0", "maze_race_v0",
    "coop_compete_v1", "team_battle_v1", "staged_v1", "bandit_v1",
    "social_trading_v0", "social_negotiation_v0",
)  # fmt: skip
TASKS = ("math_v0", "tool_use_v0", "debate_v0")
KINDS = (*GAMES, *TASKS)


def writes(name: str) -> bool:
    """Return True if actions of the environment are free texts."""
    return name.partition("_")[0] in ("math", "code", "tool", "debate", "multitask")
