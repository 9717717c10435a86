"""Assignment of a game's agents to models and other players."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import cycle


def assign_agents(
    agents: Sequence[str], models: Sequence[str], fixed: Mapping[str, str]
) -> dict[str, str]:
    """Agent -> who plays it: as `fixed` says, and the remaining agents dealt to `models` in turn.

    Four models in an eight-player game of two teams get agents i and i + 4: one in each team.
    Raises ValueError for an agent that does not exist, and for a model left without one.
    """
    unknown = sorted(set(fixed) - set(agents))
    if unknown:
        raise ValueError(f"no agent {unknown[0]!r}: the agents are {', '.join(agents)}")
    # Models that were given no agent by name come first, so that none goes without.
    turns = cycle(sorted(models, key=lambda model: model in fixed.values()))
    dealt = {agent: fixed[agent] if agent in fixed else next(turns) for agent in agents}
    idle = [model for model in models if model not in dealt.values()]
    if idle:
        raise ValueError(
            f"{idle[0]} plays no agent: {len(agents) - len(fixed)} free agent(s) for {len(models)} "
            "models; lower the number of models, choose a larger game, or have models drawn "
            "(matchmaking)"
        )
    return dealt
