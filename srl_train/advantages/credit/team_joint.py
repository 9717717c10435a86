"""Team credit: the team's return against the group's, the same for all its agents."""

from __future__ import annotations

import math

from srl_train.advantages.credit.assignment import Assignment, Group, Seating, within_groups
from srl_train.advantages.credit.comparison import (
    Scores,
    compared_games,
    game_returns,
    on_all_turns,
)


def team_joint(discount: float, scale: str) -> Assignment:
    """A = (R - mean of the group's R) / (deviation of the group's R + 1e-4).

    R is the mean of the returns of the team's agents in a game (of those that had a turn in it);
    where there are no teams all agents are one. Every turn of every agent of the team has the same
    A. `scale` "none" leaves the division out. The joint return of MAGRPO (Liu et al. 2025, "LLM
    Collaboration with Multi-Agent Reinforcement Learning"), here over whole games; a sum in place
    of the mean would differ by a factor only, which the division takes out again.
    """

    def scores(group: Group, seating: Seating) -> Scores:
        found: dict[str, dict[int, float]] = {}
        own = {agent: game_returns(group, agent, discount) for agent in seating.agents}
        for agent in seating.agents:
            mates = seating.team(agent)
            if mates[0] != agent:
                found[agent] = found[mates[0]]
                continue
            joint = {}
            for number in range(len(group)):
                returns = [own[mate][number] for mate in mates if number in own[mate]]
                if returns:
                    joint[number] = math.fsum(returns) / len(returns)
            found[agent] = compared_games(joint, scale)
        return found

    return within_groups(lambda group, seating: on_all_turns(group, scores(group, seating)))
