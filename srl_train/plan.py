"""Planned episodes: their seeds, reset options, players and recorded data."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srl_agents.episode import Decision
from srl_agents.policy import AgentObservation, Policy, SyncPolicy, waits
from srl_agents.rollout import policy_name
from srl_envs.text import TextView


class InWords:
    """Wrapper of a policy that adds the text of the action to decisions without text.

    The texts of discrete actions are the answers of `view`.
    """

    def __init__(self, policy: SyncPolicy, view: TextView) -> None:
        self.name = policy_name(policy)
        self._policy, self._view = policy, view

    def start(self, seed: int) -> Any:
        """Return the wrapped policy's memory at the start of an episode."""
        return self._policy.start(seed)

    def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Any]
    ) -> tuple[list[Decision], list[Any]]:
        """Return the wrapped policy's decisions, with missing texts added, and new memories."""
        decisions, memories = self._policy.act(seen, states)
        spoken = [
            choice
            if choice.text is not None
            else dataclasses.replace(choice, text=self._view.answers(one.agent)[int(choice.action)])
            for one, choice in zip(seen, decisions, strict=True)
        ]
        return spoken, memories


@dataclass(frozen=True)
class PlannedGames:
    """Episodes to play in one rollout; the first four fields have an entry per episode."""

    env_seeds: Sequence[int]
    policy_seeds: Sequence[int]
    options: Sequence[Mapping[str, Any]]
    """Options of `env.reset`."""
    seatings: Sequence[Mapping[str, str]]
    """Agent to the name of its player."""
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Data that all records contain in `Episode.extra`."""
    record_states: bool = False
    """True to record the joint state before each step."""
    in_words: bool = False
    """True to record scripted actions as text too, so that models can learn from them."""

    def __len__(self) -> int:
        return len(self.env_seeds)

    def part(self, numbers: Sequence[int], **changed: Any) -> PlannedGames:
        """Return the episodes at the indices `numbers`; `changed` replaces other fields."""
        return dataclasses.replace(
            self,
            env_seeds=[self.env_seeds[number] for number in numbers],
            policy_seeds=[self.policy_seeds[number] for number in numbers],
            options=[self.options[number] for number in numbers],
            seatings=[self.seatings[number] for number in numbers],
            **changed,
        )

    def policies(
        self, policies_of: Callable[[Mapping[str, str]], Mapping[str, Policy]], view: TextView
    ) -> list[Mapping[str, Policy]]:
        """Return agent -> policy for each episode: the result of `policies_of` for its seating.

        With `in_words`, policies that are not asynchronous are wrapped in InWords.
        """
        policies = [policies_of(seats) for seats in self.seatings]
        if not self.in_words:
            return policies
        return [
            {a: p if waits(p) else InWords(p, view) for a, p in by_agent.items()}
            for by_agent in policies
        ]
