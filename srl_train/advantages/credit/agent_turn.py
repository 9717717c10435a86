"""Agent-turn credit: each agent's return from a turn on, compared with the group's."""

from __future__ import annotations

from collections.abc import Sequence

from srl_train.advantages.credit.assignment import Advantages, Assignment, Group, within_groups
from srl_train.advantages.credit.comparison import compared_turns


def agent_turn(discount: float, scale: str) -> Assignment:
    """A_t = (G_t - mean of the group's G_t) / (deviation + 1e-4).

    G_t is the reward to go, sum over k >= t of discount**(k - t) * r_k; the group are the games
    from the same start in which the agent still has a turn t. The deviation is one for all turns of
    the group: of G_t - mean G_t over all of them (`compared_turns`). `scale` "none" leaves the
    division out.

    Groups per agent and turn are those of AT-GRPO (Zhao et al. 2025, "Stronger-MAS", sec. 4). It
    samples several answers to one and the same situation at every turn; here the members of a
    group share their start and the number of the turn, not what happened in between, no game is
    branched, and the deviation is not each turn's own.
    """
    return within_groups(
        lambda group, seating: turn_advantages(group, seating.agents, discount, scale)
    )


def turn_advantages(group: Group, agents: Sequence[str], discount: float, scale: str) -> Advantages:
    """Game -> agent -> advantage of each turn, in one group."""
    by_agent = {
        agent: compared_turns([game[agent].shaped for game in group], discount, scale)
        for agent in agents
    }
    return [{agent: by_agent[agent][number] for agent in agents} for number in range(len(group))]
