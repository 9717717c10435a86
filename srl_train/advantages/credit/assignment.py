"""What a credit assignment is: pure functions from groups of games to advantages per turn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from srl_train.advantages.reward_modes import Rewards, Teams

Action = int | str
"""A choice's number, or what was written where any text is a move."""
Actions = Mapping[str, Sequence[Action]]
"""Seat -> what it chose in each of its turns."""


class Game(NamedTuple):
    """What credit may look at in one game. All seats choose at once, so a seat's turn number t
    is every seat's turn t; one that leaves early has fewer of them."""

    rewards: Rewards
    """Shaped, of each seat's turns."""
    actions: Actions
    """What was played at each of them."""
    environment: str = ""
    """Which of several environments was played; empty where there is one only."""


Group = Sequence[Game]
"""The games from one start, which are compared with each other."""
Advantages = list[list[dict[str, list[float]]]]
"""Group -> game -> seat -> the advantage of each of its turns."""
State = Mapping[str, float]
"""What an assignment remembers between rounds: numbers only, held by checkpoints."""


@dataclass(frozen=True)
class Seating:
    """Who sits where, as far as credit may depend on it."""

    seats: Sequence[str]
    """In the environment's order."""
    teams: Teams = None
    leaders: Mapping[str, Collection[str]] = field(default_factory=dict)
    """Leader -> the seats that hear it; empty where nobody leads."""

    def role(self, seat: str) -> str:
        """The seat's team where there are teams, else 'leader' or 'follower' where one leads, else
        the seat itself."""
        if self.teams is not None:
            return self.teams[seat]
        if self.leaders:
            return "leader" if seat in self.leaders else "follower"
        return seat

    def team(self, seat: str) -> tuple[str, ...]:
        """The seats of its team, itself included; all seats where there are no teams."""
        return tuple(s for s in self.seats if self.teams is None or self.same_team(s, seat))

    def opponents(self, seat: str) -> tuple[str, ...]:
        """The seats of other teams; all other seats where there are no teams."""
        if self.teams is None:
            return tuple(other for other in self.seats if other != seat)
        return tuple(other for other in self.seats if not self.same_team(other, seat))

    def same_team(self, one: str, other: str) -> bool:
        """Whether both seats are of one named team."""
        return self.teams is not None and self.teams[one] == self.teams[other]


def no_state() -> State:
    """The state of an assignment that remembers nothing."""
    return {}


@dataclass(frozen=True)
class CreditAssignment:
    """One way of assigning credit."""

    name: str
    assign: Callable[[Sequence[Group], Seating, State], tuple[Advantages | None, State]]
    """(a round's groups, seating, state) -> (advantages, the next state).

    None for the advantages leaves them to the learner, which compares the episode returns of a
    group (GRPO) or has a critic (PPO).
    """
    init: Callable[[], State] = no_state
    """() -> the state before the first round."""
