"""Scripted policies that ignore opponents: uniform play, explore-then-commit and bandits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Any

import numpy as np

from srl_agents.arrays import Floats
from srl_agents.episode import Decision
from srl_agents.policy import AgentObservation, PerAgentPolicy
from srl_envs.games.bandit import OBSERVATION_FIELDS
from srl_envs.games.base import VectorLayout, vector_of


class Uniform(PerAgentPolicy):
    """Policy that draws uniformly from the legal actions.

    Args:
        actions: Number of discrete actions, for all agents or agent -> number; decisions with a
            mask do not use it.

    Raises:
        ValueError: A number is below 1.
    """

    name = "uniform"

    def __init__(self, actions: int | Mapping[str, int] = 2) -> None:
        least = actions if isinstance(actions, int) else min(actions.values())
        if least < 1:
            raise ValueError(f"actions must be 1 or more, got {actions}")
        self._actions = actions

    def decide(self, seen: AgentObservation, state: np.random.Generator) -> Decision:
        legal = self._legal(seen)
        action = legal[int(state.integers(len(legal)))]
        return Decision(action, logprob=-log(len(legal)))

    def probabilities(self, seen: AgentObservation, state: np.random.Generator) -> Floats:
        actions = self._actions
        found = np.zeros(actions if isinstance(actions, int) else actions[seen.agent])
        legal = list(self._legal(seen))
        found[legal] = 1 / len(legal)
        return found

    def continued(
        self, seen: AgentObservation, state: np.random.Generator, action: int
    ) -> np.random.Generator:
        return state

    def _legal(self, seen: AgentObservation) -> Sequence[int]:
        if seen.action_mask is not None:
            legal: list[int] = np.flatnonzero(seen.action_mask).tolist()
            return legal
        actions = self._actions
        return range(actions if isinstance(actions, int) else actions[seen.agent])


class ExploreThenCommit(PerAgentPolicy):
    """Policy that tries both actions once, then repeats the better one (Robbins 1952).

    The policy plays action 1 in the first step and action 0 in the second. If both had the same
    reward, it repeats action 1.

    Args:
        fields: Names of the entries of an observation vector, with first_round, own_cooperated and
            last_reward.
    """

    name = "explore_then_commit"

    def __init__(self, fields: Sequence[str]) -> None:
        self._layout = VectorLayout(dict.fromkeys(fields, 1))

    def start(self, seed: int) -> dict[int, float]:
        return {}

    def decide(self, seen: AgentObservation, state: dict[int, float]) -> Decision:
        fields = self._layout(seen.observation)
        if fields["first_round"][0] < 0.5:
            state.setdefault(int(fields["own_cooperated"][0]), fields["last_reward"][0])
        if len(state) < 2:
            return Decision(int(1 not in state))
        return Decision(int(state[1] >= state[0]))


class Silent(PerAgentPolicy):
    """Policy that plays a game with messages like `policy`, and sends no messages.

    `policy` is a PerAgentPolicy of the same game without messages; `game` is a
    srl_envs.games.cheap_talk.TalkingGame.
    """

    def __init__(self, policy: Any, game: Any) -> None:
        self.name, self._policy = policy.name, policy
        self._features, self._acts = game.features, game.acts

    def start(self, seed: int) -> Any:
        return self._policy.start(seed)

    def decide(self, seen: AgentObservation, state: Any) -> Decision:
        vector, mask = vector_of(seen.observation)[: self._features], seen.action_mask
        mask = None if mask is None else mask[: self._acts]
        decision: Decision = self._policy.decide(AgentObservation(seen.agent, vector, mask), state)
        return decision


RIGHT = 1
_LAYOUT = VectorLayout(dict.fromkeys(OBSERVATION_FIELDS, 1))


class WinStayLoseShift(PerAgentPolicy):
    """Policy of bandit_v0: a random arm first, then the same after a win, else the other.

    Robbins 1952.
    """

    name = "win_stay_lose_shift"

    def decide(self, seen: AgentObservation, state: np.random.Generator) -> Decision:
        fields = _LAYOUT(seen.observation)
        last, won = int(fields["own_right"][0]), fields["last_reward"][0] > 0.5
        if fields["first_round"][0] > 0.5:
            return Decision(int(state.integers(2)))
        return Decision(last if won else 1 - last)


@dataclass
class Tally:
    """Memory of ThompsonSampling."""

    rng: np.random.Generator
    counts: Floats = field(default_factory=lambda: np.ones((2, 2)))
    """Number of results [arm, 0 for wins or 1 for losses], plus 1 as uniform prior."""
    switched: bool = False
    """True after an announced change of the right arm (1)."""


class ThompsonSampling(PerAgentPolicy):
    """Thompson sampling (Thompson 1933) for the two arms of bandit_v0.

    The policy samples each arm's win probability from its posterior and pulls the better arm. The
    first announced change of the right arm (1) resets the posterior of this arm.
    """

    name = "thompson_sampling"

    def start(self, seed: int) -> Tally:
        return Tally(np.random.default_rng(seed))

    def decide(self, seen: AgentObservation, state: Tally) -> Decision:
        fields = _LAYOUT(seen.observation)
        if fields["first_round"][0] < 0.5:
            lost = int(fields["last_reward"][0] < 0.5)
            state.counts[int(fields["own_right"][0]), lost] += 1.0
        if fields["switched"][0] > 0.5 and not state.switched:
            state.counts[RIGHT], state.switched = 1.0, True
        chances = state.rng.beta(state.counts[:, 0], state.counts[:, 1])
        return Decision(int(chances.argmax()))
