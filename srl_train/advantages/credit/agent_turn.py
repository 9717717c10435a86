"""Agent-turn credit: each agent's return from a turn on, compared with the group's."""

from __future__ import annotations

from srl_train.advantages.credit.assignment import Assignment, Group, by_agent
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
    return by_agent(lambda group, agent, seating: turn_advantages(group, agent, discount, scale))


def turn_advantages(group: Group, agent: str, discount: float, scale: str) -> list[list[float]]:
    """The agent's advantages by game and turn, in one group."""
    return compared_turns([game[agent].shaped for game in group], discount, scale)
