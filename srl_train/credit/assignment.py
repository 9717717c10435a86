"""What a credit assignment is: pure functions from groups of games to advantages per turn."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from srl_train.modes import Rewards, Teams

Group = Sequence[Rewards]
"""The shaped rewards of games from one start, which are compared with each other."""
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
