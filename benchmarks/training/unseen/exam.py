"""Exams: episodes that nobody trains on, each played once, and what is read out of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srl_agents.episode import Episode
from srl_agents.policy import Policy
from srl_agents.rollout import play_many
from srl_agents.scripted.registry import classic_policy
from srl_train.run import Run


@dataclass(frozen=True)
class HeldOut:
    """Levels or problems that are kept from training."""

    make: Callable[[], Any]
    seeds: Sequence[int]
    score: Callable[[Sequence[Episode]], dict[str, Any]]
    reset_options: Sequence[Mapping[str, Any]] | None = None
    identities: frozenset[str] = frozenset()
    """By what the last info of an episode names them."""

    def __call__(self, run: Run) -> dict[str, Any]:
        """The scores of a run's models as they are now."""
        return self.play(run.policies)

    def scripted(self, name: str) -> dict[str, Any]:
        """The scores of a scripted policy in every agent's place."""
        env = self.make()
        return self.play(dict.fromkeys(env.possible_agents, classic_policy(name, env)))

    def play(self, policies: Mapping[str, Policy]) -> dict[str, Any]:
        """The scores of these players; raises RuntimeError where an episode failed."""
        episodes = play_many(self.make, policies, self.seeds, reset_options=self.reset_options)
        failed = [episode.failure for episode in episodes if episode.failure is not None]
        if failed:
            raise RuntimeError(f"{len(failed)} evaluation games failed; the first: {failed[0]}")
        return self.score(episodes)

    def overlap(self, trained_on: Sequence[str]) -> dict[str, int]:
        """How many were trained on, are asked here, and both."""
        return {
            "trained_on": len(trained_on),
            "held_out": len(self.identities),
            "trained_and_asked": len(self.identities.intersection(trained_on)),
        }
