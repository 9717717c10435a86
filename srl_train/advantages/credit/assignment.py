"""Protocol of credit assignments: pure functions from groups of games to one advantage per turn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from srl_train.advantages.reward_modes import Teams
from srl_train.data.trajectory import Game

Group = Sequence[Game]
"""The games from one start, which are compared with each other."""
Advantages = list[dict[str, list[float]]]
"""Game of a group -> agent -> the advantage of each of its turns."""
State = Mapping[str, float]
"""What an assignment remembers between rounds: numbers only, held by checkpoints."""


@dataclass(frozen=True)
class Seating:
    """Who sits where, as far as credit may depend on it."""

    agents: Sequence[str]
    """In the environment's order."""
    teams: Teams = None
    leaders: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Leader -> the agents that hear it; empty where nobody leads."""

    def role(self, agent: str) -> str:
        """The agent's team where there are teams, else 'leader' or 'follower' where one leads, else
        the agent itself."""
        if self.teams is not None:
            return self.teams[agent]
        if self.leaders:
            return "leader" if agent in self.leaders else "follower"
        return agent

    def team(self, agent: str) -> tuple[str, ...]:
        """The agents of its team, itself included; all agents where there are no teams."""
        return tuple(s for s in self.agents if not self.teams or self.teams[s] == self.teams[agent])

    def opponents(self, agent: str) -> tuple[str, ...]:
        """The agents of other teams; all other agents where there are no teams."""
        side = self.teams or {agent: agent for agent in self.agents}
        return tuple(other for other in self.agents if side[other] != side[agent])


Assignment = Callable[[Sequence[Group], Seating, State], tuple[list[Advantages], State]]
"""(a round's groups, seating, state) -> (advantages per group, the next state).

The state before the first round is empty.
"""


def environment_of(game: Game) -> str:
    """Which of several environments was played; empty where there is one only."""
    return next(iter(game.values())).environment


def by_agent(advantages: Callable[[Group, str, Seating], list[list[float]]]) -> Assignment:
    """The assignment that looks at each agent of a group by itself: its advantages by game and
    turn."""

    def assign(group: Group, seating: Seating) -> Advantages:
        found = {agent: advantages(group, agent, seating) for agent in seating.agents}
        return [{agent: own[game] for agent, own in found.items()} for game in range(len(group))]

    return within_groups(assign)


def within_groups(advantages: Callable[[Group, Seating], Advantages]) -> Assignment:
    """The assignment that looks at each group by itself and remembers nothing."""

    def assign(
        groups: Sequence[Group], seating: Seating, state: State
    ) -> tuple[list[Advantages], State]:
        return [advantages(group, seating) for group in groups], state

    return assign
