"""Role credit: a moving average of each role's returns as the baseline."""

from __future__ import annotations

import math
from collections.abc import Sequence

from srl_train.advantages.credit.assignment import (
    Advantages,
    Assignment,
    Group,
    Seating,
    State,
    environment_of,
)
from srl_train.advantages.credit.comparison import game_returns, on_all_turns


def role(discount: float, decay: float) -> Assignment:
    """A = R - b, of an agent's return R and its role's average b; all turns of the game share it.

    Role-conditioned advantage estimation (Liu et al. 2025, "SPIRAL", sec. 3.3). Games are taken in
    the order in which they were played. In each, all agents of a role are scored against b as it
    is, and then b <- decay * b + (1 - decay) * mean of their R: no return is compared with itself.
    Nothing is divided. A role is a team, or leader or follower in the hierarchical mode, or else a
    agent (`Seating.role`). Where a round plays several environments a role has an average in each:
    their returns lie on different scales.

    A role that is new starts with the mean of its returns in its first round, where SPIRAL starts
    with 0: no round consists of praise or blame alone. State: {role: b}, or
    {"environment role": b} where there are several.
    """

    def assign(
        groups: Sequence[Group], seating: Seating, state: State
    ) -> tuple[list[Advantages], State]:
        returns = [{s: game_returns(g, s, discount) for s in seating.agents} for g in groups]
        agents_of: dict[str, list[str]] = {}
        for agent in seating.agents:
            agents_of.setdefault(seating.role(agent), []).append(agent)
        averages = dict(state)
        scores: list[dict[str, dict[int, float]]] = [
            {agent: {} for agent in seating.agents} for _ in groups
        ]
        for role_name, agents in agents_of.items():
            played: dict[str, list[tuple[dict[str, dict[int, float]], int, dict[str, float]]]] = {}
            for group, own, found in zip(groups, returns, scores, strict=True):
                for number, game in enumerate(group):
                    here = {agent: own[agent][number] for agent in agents if number in own[agent]}
                    if here:
                        name = f"{environment_of(game)} {role_name}".strip()
                        played.setdefault(name, []).append((found, number, here))
            for name, games in played.items():
                everything = [value for *_, here in games for value in here.values()]
                averages.setdefault(name, math.fsum(everything) / len(everything))
                for found, number, here in games:
                    for agent, value in here.items():
                        found[agent][number] = value - averages[name]
                    mean = math.fsum(here.values()) / len(here)
                    averages[name] = decay * averages[name] + (1.0 - decay) * mean
        return [on_all_turns(*each) for each in zip(groups, scores, strict=True)], averages

    return assign
