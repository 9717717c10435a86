"""The Policy protocol: how anything that can sit in a seat is asked for its moves.

A policy hides no state: one object may sit in many seats of many episodes at once, so memory is
handed in and out, and `act` answers a whole batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from srl_agents.episode import Decision


@dataclass(frozen=True)
class Seen:
    """What one seat of one episode sees when it is asked to act."""

    agent: str
    """The seat's PettingZoo name."""
    observation: Any
    """As the environment returned it (a float32 vector unless it was built otherwise)."""
    action_mask: Any = None
    """int8 vector over the discrete actions, 1 = legal now; None where every action is legal."""
    heard: tuple[tuple[str, str], ...] = ()
    """What was said to this seat this turn, as (speaker, words) (hierarchical mode)."""


class Policy(Protocol):
    """Anything that can sit in a seat."""

    def start(self, seed: int) -> Any:
        """The memory of one seat at the start of one episode; all its randomness is from `seed`."""
        ...

    def act(self, seen: Sequence[Seen], states: Sequence[Any]) -> tuple[list[Decision], list[Any]]:
        """One decision and one new memory per entry, in order; the memories given are used up."""
        ...


@runtime_checkable
class Closing(Policy, Protocol):
    """A policy that can tell what a game that was cut off would have gone on with."""

    def closing(self, seen: Seen, state: Any) -> tuple[int, ...] | None:
        """The tokens that the seat's last observation appends to what it read; None where there
        are none, and where the game told its seats that it would end now."""
        ...
