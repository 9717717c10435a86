"""Uniform: any legal action, all equally likely."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log

import numpy as np

from srl_agents.episode import Decision
from srl_agents.policy import AgentObservation, PerAgentPolicy


class Uniform(PerAgentPolicy):
    """Draws among the legal actions of any game.

    `actions` is how many there are where no mask says which are legal: one number, or one per
    agent. Raises ValueError for less than one.
    """

    name = "uniform"

    def __init__(self, actions: int | Mapping[str, int] = 2) -> None:
        least = actions if isinstance(actions, int) else min(actions.values())
        if least < 1:
            raise ValueError(f"actions must be 1 or more, got {actions}")
        self._actions = actions

    def decide(self, seen: AgentObservation, state: np.random.Generator) -> Decision:
        """A legal action, with its log-probability."""
        legal = self._legal(seen)
        action = legal[int(state.integers(len(legal)))]
        return Decision(action, logprob=-log(len(legal)))

    def _legal(self, view: AgentObservation) -> Sequence[int]:
        if view.action_mask is not None:
            legal: list[int] = np.flatnonzero(view.action_mask).tolist()
            return legal
        own = self._actions
        return range(own if isinstance(own, int) else own[view.agent])
