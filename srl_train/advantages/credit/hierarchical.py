"""Hierarchical credit: leaders compared over the whole round, followers within the group."""

from __future__ import annotations

from collections.abc import Sequence

from srl_train.advantages.credit.assignment import (
    Advantages,
    Assignment,
    Group,
    Seating,
    State,
)
from srl_train.advantages.credit.comparison import (
    Scores,
    across_groups,
    compared_games,
    game_returns,
    on_all_turns,
)


def hierarchical(discount: float, scale: str) -> Assignment:
    """A = (R - mean R) / (deviation of R + 1e-4), of an agent's returns R; all turns share it.

    A leader's R are those of all games of the round, whatever their start: it answers for where
    its team gets to. Where a round plays several environments they are those of the same one. A
    follower's are those of its group: what it is given to do differs from start to start, and it
    answers for what it makes of it. `scale` "none" leaves the division out. The definition is this
    project's own.
    """

    def assign(
        groups: Sequence[Group], seating: Seating, state: State
    ) -> tuple[list[Advantages], State]:
        own = [{s: game_returns(group, s, discount) for s in seating.agents} for group in groups]
        across = {
            leader: across_groups(groups, [found[leader] for found in own], scale)
            for leader in seating.leaders
        }
        scores: list[Scores] = [
            {
                agent: across[agent][number] if agent in across else compared_games(returns, scale)
                for agent, returns in found.items()
            }
            for number, found in enumerate(own)
        ]
        return [on_all_turns(*each) for each in zip(groups, scores, strict=True)], state

    return assign
