"""Scripted policies of several games: uniform play, bandits, trials, and draws among policies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import log
from typing import Any

import numpy as np

from srl_agents.arrays import Floats
from srl_agents.episode import Decision
from srl_agents.errors import PolicyError
from srl_agents.policy import AgentObservation, PerAgentPolicy, Policy, SyncPolicy, waits
from srl_agents.rollout import policy_name
from srl_envs.games.bandit import OBSERVATION_FIELDS
from srl_envs.games.base import VectorLayout


class Uniform(PerAgentPolicy):
    """Policy that draws uniformly from the legal actions.

    Args:
        actions: Number of discrete actions, of all agents or per agent; unused if there is a mask.

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

    It plays action 1 in the first step and action 0 in the second. If both earned the same, it
    repeats action 1.

    Args:
        fields: Names of the entries of an observation vector.
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


RIGHT = 1
_LAYOUT = VectorLayout(dict.fromkeys(OBSERVATION_FIELDS, 1))


class WinStayLoseShift(PerAgentPolicy):
    """Policy that repeats the arm after a win and changes it after a loss (Robbins 1952)."""

    name = "win_stay_lose_shift"

    def decide(self, seen: AgentObservation, state: np.random.Generator) -> Decision:
        fields = _LAYOUT(seen.observation)
        last, won = int(fields["own_right"][0]), fields["last_reward"][0] > 0.5
        if fields["first_round"][0] > 0.5:
            return Decision(int(state.integers(2)))
        return Decision(last if won else 1 - last)


@dataclass
class Tally:
    """Memory of a bandit policy."""

    rng: np.random.Generator
    counts: Floats = field(default_factory=lambda: np.ones((2, 2)))
    """Wins and losses per arm, plus 1 as uniform prior."""
    switched: bool = False
    """True after an announced change of the right arm."""


class ThompsonSampling(PerAgentPolicy):
    """Thompson sampling (Thompson 1933) for two arms.

    The policy samples each arm's win probability from its posterior and pulls the better arm. An
    announced change of the right arm resets its posterior.
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


@dataclass
class Hidden:
    """Memory of one agent of OneOf."""

    drawn: int
    """Number of the policy that the agent's seed draws."""
    seed: int
    """Seed of the memory of the policy."""
    policy: SyncPolicy | None = None
    """Policy that the agent plays; None before its first action."""
    memory: Any = None
    """Memory of `policy`."""


class OneOf:
    """Policy that draws one of several policies, all equally likely, for each episode.

    Agents whose first actions are in the same step play the same policy, which the first of them
    draws. Observations do not contain the draw: other agents have to recognize the policy.

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
