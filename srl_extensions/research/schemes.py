"""Credit scheme `role`."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from srl_train.credit import (
    Advantages,
    AgentRoles,
    CreditScheme,
    CreditState,
    Group,
    environment_of,
    episode_returns,
    on_all_steps,
)


def role(section: Any, discount: float, scale: str) -> CreditScheme:
    """Return the scheme that subtracts a moving average of the role's returns from each return.

    Role-conditioned advantage estimation (Liu et al. 2025, "SPIRAL", sec. 3.3). All steps of an
    agent in an episode share the advantage. In each episode in order, the advantage is the return
    minus the average b of the agent's role. Then b <- decay * b + (1 - decay) * mean of the
    returns of the role's agents in this episode. Agents without steps do not count. b starts as
    the mean of the role's returns in its first round, where SPIRAL starts with 0.

    State: role -> b. In multitask_v0, each environment has its own b, with key "environment role".
    `section.decay` is the decay, `discount` the discount per step; `scale` is unused.
    """
    decay = section.decay

    def scheme(
        groups: Sequence[Group], roles: AgentRoles, state: CreditState
    ) -> tuple[list[Advantages], CreditState]:
        averages = dict(state)
        scores: list[dict[str, dict[int, float]]] = [{a: {} for a in roles.agents} for _ in groups]
        # Per role and environment, in order: (group, episode, agent -> return).
        played: dict[str, list[tuple[int, int, dict[str, float]]]] = defaultdict(list)
        for index, group in enumerate(groups):
            returns = {a: episode_returns(group, a, discount) for a in roles.agents}
            for number, game in enumerate(group):
                by_role: dict[str, dict[str, float]] = defaultdict(dict)
                for agent in roles.agents:
                    if number in returns[agent]:
                        by_role[role_of(agent, roles)][agent] = returns[agent][number]
                for name, by_agent in by_role.items():
                    key = f"{environment_of(game)} {name}".strip()
                    played[key].append((index, number, by_agent))
        for key, episodes in played.items():
            values = [value for *_, by_agent in episodes for value in by_agent.values()]
            averages.setdefault(key, math.fsum(values) / len(values))
            for index, number, by_agent in episodes:
                for agent, value in by_agent.items():
                    scores[index][agent][number] = value - averages[key]
                mean = math.fsum(by_agent.values()) / len(by_agent)
                averages[key] = decay * averages[key] + (1.0 - decay) * mean
        return [on_all_steps(*each) for each in zip(groups, scores, strict=True)], averages

    return scheme


def role_of(agent: str, roles: AgentRoles) -> str:
    """Return the agent's team, else "leader" or "follower" if any agent leads, else `agent`."""
    if roles.teams is not None:
        return roles.teams[agent]
    if roles.leaders:
        return "leader" if agent in roles.leaders else "follower"
    return agent
