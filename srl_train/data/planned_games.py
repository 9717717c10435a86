"""Planned games: from which starts, by whom, and what is kept of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srl_agents.policy import Policy
from srl_agents.rollout import Branching, PlaySettings
from srl_envs.text import TextView
from srl_train.data.collect import in_words


@dataclass(frozen=True)
class PlannedGames:
    """What one rollout plays; the first four have an entry per game."""

    env_seeds: Sequence[int]
    policy_seeds: Sequence[int]
    options: Sequence[Mapping[str, Any]]
    """Of the environments' resets."""
    seatings: Sequence[Mapping[str, str]]
    """Agent -> who plays it."""
    extra: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Kept on every episode."""
    record_states: bool = False
    in_words: bool = False
    """Whether scripted policies say their actions, for models to learn from."""
    branching: Branching | None = None
    """What is tried at every turn."""

    def __len__(self) -> int:
        return len(self.env_seeds)

    def part(self, numbers: Sequence[int], **changed: Any) -> PlannedGames:
        """The games of these numbers, with some of the other fields changed."""
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
        """Of each game, agent -> policy; `seated` gives those of a seating."""
        found = [seated(seats) for seats in self.seatings]
        if not self.in_words:
            return found
        return [{agent: in_words(one, view) for agent, one in own.items()} for own in found]

    def settings(self) -> PlaySettings:
        """As `play_many` takes them."""
        return {
            "policy_seeds": self.policy_seeds,
            "reset_options": self.options,
            "names": self.seatings,
            "extra": self.extra,
            "record_states": self.record_states,
            "branching": self.branching,
        }
