"""Scripted bandit policies, on their own pulls and rewards."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from srl_agents.episode import Decision
from srl_agents.policy import AgentObservation
from srl_agents.scripted.observation_layout import VectorLayout
from srl_envs.games.bandit.env import OBSERVATION_FIELDS

RIGHT = 1
_LAYOUT = VectorLayout(dict.fromkeys(OBSERVATION_FIELDS, 1))


class WinStayLoseShift:
    """Pulls an arm as long as it wins, and changes after a loss (Robbins 1952); a coin begins."""

    name = "win_stay_lose_shift"

    def start(self, seed: int) -> np.random.Generator:
        """The agent's own generator."""
        return np.random.default_rng(seed)

    def act(
        self, seen: Sequence[AgentObservation], states: Sequence[np.random.Generator]
    ) -> tuple[list[Decision], list[np.random.Generator]]:
        """One decision per agent."""
        decisions = []
        for view, generator in zip(seen, states, strict=True):
            fields = _LAYOUT(view.observation)
            last, won = int(fields["own_right"][0]), fields["last_reward"][0] > 0.5
            if fields["first_round"][0] > 0.5:
                action = int(generator.integers(2))
            else:
                action = last if won else 1 - last
            decisions.append(Decision(action))
        return decisions, list(states)


@dataclass
class Tally:
    """What one agent knows of its arms."""

    rng: np.random.Generator
    counts: NDArray[np.float64] = field(default_factory=lambda: np.ones((2, 2)))
    """Per arm: wins and losses, each with one to begin with (a uniform prior)."""
    switched: bool = False


class ThompsonSampling:
    """Draws a chance for each arm from what it has seen, and pulls the better (Thompson 1933).

    Where the right arm's change is shown, what was known of that arm is forgotten then.
    """

    name = "thompson_sampling"

    def start(self, seed: int) -> Tally:
        """Nothing known of either arm."""
        return Tally(np.random.default_rng(seed))

    def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Tally]
    ) -> tuple[list[Decision], list[Tally]]:
        """One decision per agent."""
        decisions = []
        for view, tally in zip(seen, states, strict=True):
            fields = _LAYOUT(view.observation)
            if fields["first_round"][0] < 0.5:
                lost = int(fields["last_reward"][0] < 0.5)
                tally.counts[int(fields["own_right"][0]), lost] += 1.0
            if fields["switched"][0] > 0.5 and not tally.switched:
                tally.counts[RIGHT], tally.switched = 1.0, True
            chances = tally.rng.beta(tally.counts[:, 0], tally.counts[:, 1])
            decisions.append(Decision(int(chances.argmax())))
        return decisions, list(states)
