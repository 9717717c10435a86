"""Round credit: an agent's return against those of all its games of the round."""

from __future__ import annotations

from collections.abc import Sequence

from srl_train.advantages.credit.assignment import Advantages, Assignment, Group, Seating, State
from srl_train.advantages.credit.comparison import across_groups, game_returns, on_all_turns


def whole_round(discount: float, scale: str) -> Assignment:
    """A = (R - mean R) / (deviation of R + 1e-4), over an agent's returns R of the round's games.

    REINFORCE++ (Hu 2025, eq. 7): one baseline and one deviation for all starts, so a start of two
    equal games is learned from too, and an easy start praises whatever is done there. Where a
    round plays several environments, games of the same one are compared. `scale` "none" leaves the
    division out.
    """

    def assign(
        groups: Sequence[Group], seating: Seating, state: State
    ) -> tuple[list[Advantages], State]:
        own = {
            agent: across_groups(
                groups, [game_returns(group, agent, discount) for group in groups], scale
            )
            for agent in seating.agents
        }
        return [
            on_all_turns(group, {agent: found[number] for agent, found in own.items()})
            for number, group in enumerate(groups)
        ], state

    return assign
