"""Leave-one-out credit: a game's return against the mean of the group's other games, per agent."""

from __future__ import annotations

import math

from srl_train.advantages.credit.assignment import Assignment, Group, Seating, within_groups
from srl_train.advantages.credit.comparison import Scores, game_returns, on_all_turns


def leave_one_out(discount: float) -> Assignment:
    """A = R - mean of the agent's R in the group's other games; all turns of the game share it.

    RLOO (Ahmadian et al. 2024, "Back to Basics", sec. 3.2; Kool et al. 2019): the baseline does not
    depend on the game it is for, and nothing is divided. An agent that had a turn in one game of
    the group only has nothing to compare with: 0.
    """

    def scores(group: Group, seating: Seating) -> Scores:
        return {
            agent: _against_others(game_returns(group, agent, discount)) for agent in seating.agents
        }

    return within_groups(lambda group, seating: on_all_turns(group, scores(group, seating)))


def _against_others(returns: dict[int, float]) -> dict[int, float]:
    if len(set(returns.values())) < 2:
        return dict.fromkeys(returns, 0.0)
    total, others = math.fsum(returns.values()), len(returns) - 1
    return {number: own - (total - own) / others for number, own in returns.items()}
