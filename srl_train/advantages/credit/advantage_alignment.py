"""Advantage alignment: opponent shaping by weighting acts that serve an opponent."""

from __future__ import annotations

import math
from collections.abc import Sequence

from srl_train.advantages.credit.agent_turn import turn_advantages
from srl_train.advantages.credit.assignment import (
    Advantages,
    Assignment,
    Group,
    Seating,
    within_groups,
)


def advantage_alignment(discount: float, scale: str, alignment: float) -> Assignment:
    """A*_t = A_t + alignment * discount * (sum over k < t of discount**(t - k) * A_k) * B_t.

    Advantage alignment (Duque et al. 2024, "Advantage Alignment Algorithms", the update of its
    proximal form): A are the agent's own advantages, B_t the opponent's at the same turn. What
    helps an opponent becomes more likely where the agent has done better than expected so far, and
    less likely where it has done worse: the opponent's own gain then lies in treating it well.

    A and B are those of `agent_turn`. For more than two agents B_t is the mean over the opponents
    that have that turn: the agents of other teams, or all others where there are no teams. An agent
    without opponents keeps A.
    """

    def aligned(group: Group, seating: Seating) -> Advantages:
        own = {agent: turn_advantages(group, agent, discount, scale) for agent in seating.agents}
        return [
            {
                agent: _aligned(
                    found[game],
                    [own[other][game] for other in seating.opponents(agent)],
                    discount,
                    alignment,
                )
                for agent, found in own.items()
            }
            for game in range(len(group))
        ]

    return within_groups(aligned)


def _aligned(
    own_T: Sequence[float],
    others: Sequence[Sequence[float]],
    discount: float,
    alignment: float,
) -> list[float]:
    found: list[float] = []
    past = 0.0  # sum over k < t of discount**(t - k) * own_T[k]
    for turn, value in enumerate(own_T):
        theirs = [other[turn] for other in others if turn < len(other)]
        mean = math.fsum(theirs) / len(theirs) if theirs else 0.0
        found.append(value + alignment * discount * past * mean)
        past = discount * (past + value)
    return found
