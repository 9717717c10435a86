"""Policy protocols.

A policy has no state per episode: one object may play many agents of many episodes at once, so
memory is passed in and returned.
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
    """Observation of one agent of one episode."""

    agent: str
    observation: Any
    """Observation as the environment returned it."""
    action_mask: Any = None
    """int8 vector over the discrete actions, 1 = legal; None if all actions are legal."""
    messages: tuple[tuple[str, str], ...] = ()
    """(speaker, words) pairs of this step (hierarchical mode)."""


class SyncPolicy(Protocol):
    """Policy that decides at once, such as a scripted one."""

    def start(self, seed: int) -> Any:
        """Return the initial memory of an agent; all its randomness is from `seed`."""
        ...

    def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Any]
    ) -> tuple[list[Decision], list[Any]]:
        """Return one decision and one new memory per entry, in order."""
        ...


class AsyncPolicy(Protocol):
    """Policy that waits for its decisions, such as a language model."""

    def start(self, seed: int) -> Any: ...

    async def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Any]
    ) -> tuple[list[Decision], list[Any]]: ...

    def leave(self, state: Any) -> None:
        """Release a memory at the end of its episode."""


class PerAgentPolicy:
    """SyncPolicy that decides for one agent at a time; a subclass implements `decide`."""

    def start(self, seed: int) -> Any:
        return np.random.default_rng(seed)

    def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Any]
    ) -> tuple[list[Decision], list[Any]]:
        decisions = [self.decide(one, state) for one, state in zip(seen, states, strict=True)]
        return decisions, list(states)

    def decide(self, seen: AgentObservation, state: Any) -> Decision:
        """Return the decision of one agent; `state` may be modified."""
        raise NotImplementedError


Policy = SyncPolicy | AsyncPolicy
"""Any policy. `act` receives all agents of one episode that decide at the same time."""


def missing_methods(thing: object) -> list[str]:
    """Return the methods of the policy protocols that `thing` lacks."""
    is_async = iscoroutinefunction(getattr(thing, "act", None))
    required = ("start", "act", "leave") if is_async else ("start", "act")
    return [name for name in required if not callable(getattr(thing, name, None))]


def waits(policy: Policy) -> TypeIs[AsyncPolicy]:
    """Return True for an AsyncPolicy."""
    return iscoroutinefunction(policy.act)


@runtime_checkable
class StartsTogether(Protocol):
    """Policy whose agents in one episode share something."""

    def start_together(self, seeds: Sequence[int]) -> list[Any]:
        """Return the initial memories of all agents, from the agents' seeds."""
        ...


@runtime_checkable
class Closing(Protocol):
    """Policy that reads the last observation of a truncated episode."""

    def closing(self, seen: AgentObservation, state: Any) -> tuple[int, ...] | None:
        """Return the tokens of the agent's last observation, or None."""
        ...
