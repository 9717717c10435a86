"""Policy that draws one of several policies for each episode."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from srl_agents.episode import Decision
from srl_agents.errors import PolicyError
from srl_agents.policy import AgentObservation, Policy, SyncPolicy, waits
from srl_agents.rollout import policy_name


@dataclass
class Hidden:
    """Memory of one agent of OneOf."""

    drawn: int
    """Index of the policy that the agent's seed draws."""
    seed: int
    """Seed of the memory of the policy."""
    policy: SyncPolicy | None = None
    """Policy in use: the draw of the first of the agents that act together. None at first."""
    memory: Any = None


class OneOf:
    """Policy that draws one of several policies, all equally likely, for each episode.

    Agents whose first actions are in the same `act` call play the same policy, which the first
    agent in the call draws.

    Args:
        policies: Policies to draw from. A policy that is listed twice is twice as likely.

    Raises:
        PolicyError: A policy is asynchronous.
    """

    def __init__(self, policies: Sequence[Policy]) -> None:
        self._policies: list[SyncPolicy] = []
        for policy in policies:
            if waits(policy):
                raise PolicyError(f"policies must not be async to be drawn, got {policy!r}")
            self._policies.append(policy)
        self.name = "|".join(map(policy_name, policies))

    def start(self, seed: int) -> Hidden:
        draw, own = np.random.SeedSequence(seed).spawn(2)
        drawn = int(np.random.default_rng(draw).integers(len(self._policies)))
        return Hidden(drawn, int(own.generate_state(1, np.uint64)[0]))

    def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Hidden]
    ) -> tuple[list[Decision], list[Hidden]]:
        decisions = []
        for one, state in zip(seen, states, strict=True):
            if state.policy is None:
                state.policy = self._policies[states[0].drawn]
                state.memory = state.policy.start(state.seed)
            [decision], [state.memory] = state.policy.act([one], [state.memory])
            decisions.append(decision)
        return decisions, list(states)
