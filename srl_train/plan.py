"""Planned episodes: their starts, players and records."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srl_agents.episode import Decision
from srl_agents.policy import AgentObservation, Policy, SyncPolicy, waits
from srl_agents.rollout import MakeGame, PlaySettings, policy_name
from srl_envs.text import TextView


class InWords:
    """Policy whose actions are also recorded in the view's words, so that models can learn."""

    def __init__(self, policy: SyncPolicy, view: TextView) -> None:
        self.name = policy_name(policy)
        self._policy, self._view = policy, view

    def start(self, seed: int) -> Any:
        """Return the policy's memory."""
        return self._policy.start(seed)

    def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Any]
    ) -> tuple[list[Decision], list[Any]]:
        """Return the policy's decisions with their words."""
        decisions, memories = self._policy.act(seen, states)
        spoken = [
            choice
            if choice.text is not None
            else dataclasses.replace(choice, text=self._view.answers(one.agent)[int(choice.action)])
            for one, choice in zip(seen, decisions, strict=True)
        ]
        return spoken, memories


def in_words(policy: Policy, view: TextView) -> Policy:
    """Return the policy with words for its actions; language models have their own."""
    return policy if waits(policy) else InWords(policy, view)


@dataclass(frozen=True)
class PlannedGames:
    """Episodes of one rollout; the first four fields have an entry per episode."""

    env_seeds: Sequence[int]
    policy_seeds: Sequence[int]
    options: Sequence[Mapping[str, Any]]
    """Options of the environments' resets."""
    seatings: Sequence[Mapping[str, str]]
    """Agent to the name of its player."""
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Added to every episode's `extra`."""
    record_states: bool = False
    in_words: bool = False
    """Record scripted actions in words, so that models can learn from them."""
    make_game: MakeGame | None = None
    """Constructor of the games; None plays them without branches."""

    def __len__(self) -> int:
        return len(self.env_seeds)

    def part(self, numbers: Sequence[int], **changed: Any) -> PlannedGames:
        """Return the episodes of these numbers, with other fields changed."""
        return dataclasses.replace(
            self,
            env_seeds=[self.env_seeds[number] for number in numbers],
            policy_seeds=[self.policy_seeds[number] for number in numbers],
            options=[self.options[number] for number in numbers],
            seatings=[self.seatings[number] for number in numbers],
            **changed,
        )

    def policies(
        self, seated: Callable[[Mapping[str, str]], Mapping[str, Policy]], view: TextView
    ) -> list[Mapping[str, Policy]]:
        """Return each episode's policies by agent; `seated` builds those of a seating."""
        found = [seated(seats) for seats in self.seatings]
        if not self.in_words:
            return found
        return [{agent: in_words(one, view) for agent, one in own.items()} for own in found]

    def settings(self) -> PlaySettings:
        """Return the keyword arguments of `play_many`."""
        return {
            "policy_seeds": self.policy_seeds,
            "reset_options": self.options,
            "names": self.seatings,
            "extra": self.extra,
            "record_states": self.record_states,
            "make_game": self.make_game,
        }
