"""Mixture of policies: one of them, drawn for each game, plays all of its agents there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from srl_agents import seeding
from srl_agents.episode import Decision
from srl_agents.policy import AgentObservation, AsyncPolicy, Closing
from srl_agents.rollout.event_loop import together


@dataclass(frozen=True)
class Drawn:
    """An agent's memory: who plays it in this game, and that policy's own memory."""

    name: str
    own: Any


class Mixture:
    """A mixed strategy: in every game one of several policies, such as past versions of a model.

    Who it was, the model of its answers' tokens says.
    """

    def __init__(self, name: str, policies: Mapping[str, AsyncPolicy], chances: Sequence[float]):
        """`policies` are drawn by their `chances`, in order; `name` is what the mixture is called.
        Raises ValueError where these do not fit."""
        if len(policies) != len(chances) or not policies:
            raise ValueError(f"{len(policies)} policies and {len(chances)} chances: give as many")
        self.name = name
        self.chances = dict(zip(policies, chances, strict=True))
        self._policies = dict(policies)

    def start(self, seed: int) -> Drawn:
        """Draw for an agent that plays alone."""
        return self.start_together([seed])[0]

    def start_together(self, seeds: Sequence[int]) -> list[Drawn]:
        """Draw once for all of its agents of a game."""
        rng = seeding.of_mixture(seeds[0])
        name = str(rng.choice(list(self.chances), p=list(self.chances.values())))
        return [Drawn(name, self._policies[name].start(seed)) for seed in seeds]

    async def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Drawn]
    ) -> tuple[list[Decision], list[Drawn]]:
        """The decisions of those who were drawn, each asked once."""
        asked: dict[str, list[int]] = {}
        for place, state in enumerate(states):
            asked.setdefault(state.name, []).append(place)
        calls = [
            self._policies[name].act([seen[n] for n in places], [states[n].own for n in places])
            for name, places in asked.items()
        ]
        answers: list[Any] = [None] * len(states)
        for (name, places), answer in zip(asked.items(), await together(*calls), strict=True):
            for place, decision, own in zip(places, *answer, strict=True):
                answers[place] = decision, Drawn(name, own)
        return [decision for decision, _ in answers], [memory for _, memory in answers]

    def leave(self, state: Drawn) -> None:
        """The episode is over."""
        self._policies[state.name].leave(state.own)

    def closing(self, seen: AgentObservation, state: Drawn) -> tuple[int, ...] | None:
        """See srl_agents.policy.Closing; None where who was drawn cannot tell."""
        drawn = self._policies[state.name]
        return drawn.closing(seen, state.own) if isinstance(drawn, Closing) else None
