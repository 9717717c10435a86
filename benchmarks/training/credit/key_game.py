"""A game in which one agent's one act alone matters, and everything else is weather.

Sixteen agents play eight turns, and each picks one of four colours every turn. The agent that holds
the key earns 1 where it picks the right colour at the right turn. Nobody is told who, when or
which. At every turn every agent also earns a normal number (standard deviation `WEATHER`) that no
act has any influence on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from srl_envs.games import base
from srl_envs.text import FixedChoices, any_of

AGENTS, TURNS = 16, 8
COLOURS = ("red", "green", "blue", "white")
HOLDER, WHEN, COLOUR = 2, 4, 1
"""The agent, the turn (from 0) and the colour that matter."""
PRIZE, WEATHER = 1.0, 0.5


def rewards(chosen_AT: NDArray[np.int64], weather_AT: NDArray[np.float64]) -> NDArray[np.float64]:
    """Agents' rewards by turn, of a game's choices: (..., agents, turns), of any games alike."""
    paid = weather_AT.copy()
    paid[..., HOLDER, WHEN] += PRIZE * (chosen_AT[..., HOLDER, WHEN] == COLOUR)
    return paid


class KeyGame(base.SimultaneousGame):
    """The environment; observations are (agent, turn), both as shares of their number."""

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("key_game", fps=4)

    def __init__(self) -> None:
        super().__init__(
            [f"agent_{agent}" for agent in range(AGENTS)],
            COLOURS,
            low=(0.0, 0.0),
            high=(1.0, 1.0),
            reward_ceiling=PRIZE + base.NOISE_LIMIT * WEATHER,
            noise_std=WEATHER,
            max_cycles=TURNS,
        )

    def baselines(self) -> dict[str, float]:
        """Mean reward per agent and turn: of uniform play, and of whoever knows."""
        known = PRIZE / (AGENTS * TURNS)
        return {"uniform": known / len(COLOURS), "optimum": known}

    def make_view(self) -> KeyGameView:
        """How it reads."""
        return KeyGameView()

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        """Nothing has happened."""
        return self._rows_now()

    def play_round(
        self, chosen: Sequence[int], over: bool
    ) -> tuple[Sequence[base.Row], Sequence[float], list[dict[str, Any]]]:
        """Weather for all; the prize where the key turned."""
        paid = self.noise(AGENTS)
        if self.played - 1 == WHEN and chosen[HOLDER] == COLOUR:
            paid[HOLDER] += PRIZE
        return self._rows_now(), paid, [{} for _ in chosen]

    def _rows_now(self) -> list[base.Row]:
        return [(agent / AGENTS, self.played / TURNS) for agent in range(AGENTS)]


class KeyGameView(FixedChoices):
    """How the game reads and is answered."""

    choices = COLOURS
    default_action = 0
    parse_penalty = 0.0

    def rules(self, agent: str) -> str:
        """The game and how to answer."""
        return f"You are {agent}. Each turn pick a colour: {any_of(COLOURS)}. Write it alone."

    def describe(self, agent: str, observation: Any) -> str:
        """The number of the turn."""
        return f"{agent}, turn {round(float(observation[1]) * TURNS) + 1} of {TURNS}."
