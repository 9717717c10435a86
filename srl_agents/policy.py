"""Policy protocols: how an agent is asked for its actions.

A policy hides no state: one object may play many agents of many episodes at once, so memory is
handed in and out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from srl_agents.episode import Decision

if TYPE_CHECKING:
    from typing_extensions import TypeIs


@dataclass(frozen=True)
class AgentObservation:
    """What one agent of one episode observes when it is asked to act."""

    agent: str
    """The agent's PettingZoo name."""
    observation: Any
    """As the environment returned it (a float32 vector unless it was built otherwise)."""
    action_mask: Any = None
    """int8 vector over the discrete actions, 1 = legal now; None where every action is legal."""
    messages: tuple[tuple[str, str], ...] = ()
    """What was said to this agent this turn, as (speaker, words) (hierarchical mode)."""


class SyncPolicy(Protocol):
    """A policy that decides at once, such as a scripted one."""

    def start(self, seed: int) -> Any:
        """An agent's memory at the start of an episode; all its randomness is from `seed`."""
        ...

    def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Any]
    ) -> tuple[list[Decision], list[Any]]:
        """One decision and one new memory per entry, in order; the memories given are used up."""
        ...


class AsyncPolicy(Protocol):
    """A policy that waits for its decisions, such as a language model, while other episodes go
    on."""

    def start(self, seed: int) -> Any:
        """An agent's memory at the start of an episode; all its randomness is from `seed`."""
        ...

    async def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Any]
    ) -> tuple[list[Decision], list[Any]]:
        """One decision and one new memory per entry, in order; the memories given are used up."""
        ...

    def leave(self, state: Any) -> None:
        """The episode is over: what was kept for this memory may go."""
        ...


class PerAgentPolicy:
    """The part of a SyncPolicy that decides for one agent at a time: a subclass gives `decide`."""

    def start(self, seed: int) -> Any:
        """The agent's own generator, where a subclass keeps no more."""
        return np.random.default_rng(seed)

    def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Any]
    ) -> tuple[list[Decision], list[Any]]:
        """One decision per entry, in order; the memories are those given."""
        decisions = [self.decide(one, state) for one, state in zip(seen, states, strict=True)]
        return decisions, list(states)

    def decide(self, seen: AgentObservation, state: Any) -> Decision:
        """One agent's decision; what it is to remember is written into `state`."""
        raise NotImplementedError


Policy = SyncPolicy | AsyncPolicy
"""Anything that can play an agent. Its `act` is given all its agents of one episode that decide at
the same time."""


def missing_methods(thing: object) -> list[str]:
    """Return the methods of the policy protocols that `thing` lacks; empty for a policy."""
    is_async = iscoroutinefunction(getattr(thing, "act", None))
    required = ("start", "act", "leave") if is_async else ("start", "act")
    return [name for name in required if not callable(getattr(thing, name, None))]


def waits(policy: Policy) -> TypeIs[AsyncPolicy]:
    """Whether the policy's decisions are waited for."""
    return iscoroutinefunction(policy.act)


@runtime_checkable
class StartsTogether(Protocol):
    """A policy whose agents in one game have something in common, such as who plays them."""

    def start_together(self, seeds: Sequence[int]) -> list[Any]:
        """The memories of all of its agents at the start of an episode, from their own seeds."""
        ...


@runtime_checkable
class Closing(Protocol):
    """A policy that can tell what a game that was cut off would have gone on with."""

    def closing(self, seen: AgentObservation, state: Any) -> tuple[int, ...] | None:
        """The tokens that the agent's last observation appends to what it read; None where there
        are none, and where the game told its agents that it would end now."""
        ...
