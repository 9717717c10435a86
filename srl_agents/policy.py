"""Policy protocols.

One policy object may play many agents of many episodes at once. It therefore keeps no state of an
episode: the memory of each agent is an argument and a result of `act`.
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
    """Observation of one agent in one step of one episode."""

    agent: str
    observation: Any
    """Observation as returned by the environment."""
    action_mask: Any = None
    """int8 vector over the discrete actions, 1 = legal; None if all actions are legal."""
    messages: tuple[tuple[str, str], ...] = ()
    """(speaker, text) pairs that other agents sent in this step (hierarchical mode)."""


class SyncPolicy(Protocol):
    """Policy that computes its decisions at once, such as a scripted policy."""

    def start(self, seed: int) -> Any:
        """Return the initial memory of one agent; `seed` is the source of all its randomness."""
        ...

    def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Any]
    ) -> tuple[list[Decision], list[Any]]:
        """Choose actions; return decisions and new memories, both in the order of `seen`.

        Args:
            seen: Observation of each agent of one episode that decides at the same time.
            states: Memory of each agent, in the order of `seen`.
        """
        ...


class AsyncPolicy(Protocol):
    """Policy whose decisions are awaited, such as a language model."""

    def start(self, seed: int) -> Any:
        """Return the initial memory of one agent, with all randomness from `seed`."""
        ...

    async def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Any]
    ) -> tuple[list[Decision], list[Any]]:
        """Choose actions; return decisions and new memories, both in the order of `seen`.

        Raises:
            BackendError: The model failed. The rollout ends this episode as failed.
        """
        ...

    def leave(self, state: Any) -> None:
        """Release the resources of one agent, with the memory `state`, after its episode."""


Policy = SyncPolicy | AsyncPolicy


class PerAgentPolicy:
    """Base class of synchronous policies that decide for one agent at a time.

    A subclass implements `decide`. The memory of an agent is a NumPy generator, unless the subclass
    overrides `start`.
    """

    def start(self, seed: int) -> Any:
        return np.random.default_rng(seed)

    def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Any]
    ) -> tuple[list[Decision], list[Any]]:
        decisions = [self.decide(one, state) for one, state in zip(seen, states, strict=True)]
        return decisions, list(states)

    def decide(self, seen: AgentObservation, state: Any) -> Decision:
        """Choose the action of one agent; each subclass must implement this method.

        Args:
            seen: Observation of the agent.
            state: Memory of the agent, modified in place if it changes.
        """
        raise NotImplementedError


@runtime_checkable
class Closing(Protocol):
    """Policy that converts the last observation of a truncated episode to tokens."""

    def closing(self, seen: AgentObservation, state: Any) -> tuple[int, ...] | None:
        """Return the token ids of the agent's last observation, or None to record no tokens.

        Args:
            seen: Last observation.
            state: Memory of the agent.
        """
        ...


@runtime_checkable
class Exact(Protocol):
    """Policy whose action probabilities can be computed, as exact exploitability requires."""

    def probabilities(self, seen: AgentObservation, state: Any) -> np.ndarray:
        """Return an array (actions,) with the probability of each discrete action, 0 if illegal.

        Args:
            seen: Observation of the agent.
            state: Memory of the agent.
        """
        ...

    def continued(self, seen: AgentObservation, state: Any, action: int) -> Any:
        """Return the agent's memory after it has chosen an action.

        Args:
            seen: Observation of the agent.
            state: Memory before the action.
            action: Number of a legal action.
        """
        ...


def missing_methods(thing: object) -> list[str]:
    """Return the names of `start`, `act` and (if `act` is async) `leave` that `thing` lacks."""
    is_async = iscoroutinefunction(getattr(thing, "act", None))
    required = ("start", "act", "leave") if is_async else ("start", "act")
    return [name for name in required if not callable(getattr(thing, name, None))]


def waits(policy: Policy) -> TypeIs[AsyncPolicy]:
    """Return True if `policy.act` is a coroutine function, so that its result must be awaited."""
    return iscoroutinefunction(policy.act)
