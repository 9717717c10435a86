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
    """Policy that also records the text of its actions, so that language models can imitate it.

    Args:
        policy: Policy that chooses the actions.
        view: Text view of the environment.
    """

    def __init__(self, policy: SyncPolicy, view: TextView) -> None:
        self.name = policy_name(policy)
        self._policy, self._view = policy, view

    def start(self, seed: int) -> Any:
        """Return the policy's memory for a new episode."""
        return self._policy.start(seed)

    def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Any]
    ) -> tuple[list[Decision], list[Any]]:
        """Return the policy's decisions, with text added where it is None, and new memories."""
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
    """Options of the environments' resets."""
    seatings: Sequence[Mapping[str, str]]
    """Agent to the name of its player."""
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Entries of every episode's `extra`."""
    record_states: bool = False
    in_words: bool = False
    """Record scripted actions in words, so that models can learn from them."""

    def __len__(self) -> int:
        return len(self.env_seeds)

    def part(self, numbers: Sequence[int], **changed: Any) -> PlannedGames:
        """Return the episodes with the indices `numbers`, in this order, and `changed` fields."""
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
        """Return agent -> policy for each episode.

        With `in_words`, policies that are not asynchronous are wrapped in InWords. `policies_of`
        maps agent -> player to agent -> policy; `view` is the game's text view.
        """
        policies = [policies_of(seats) for seats in self.seatings]
        if not self.in_words:
            return policies
        return [
            {a: p if waits(p) else InWords(p, view) for a, p in by_agent.items()}
            for by_agent in policies
        ]
