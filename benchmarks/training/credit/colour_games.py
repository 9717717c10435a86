"""Three games of colours, each of which asks one question: whose act it was, when an act pays, and
how much it pays.

Every turn every agent picks one of four colours; it is told its name and the turn. Which colour is
right goes round with both, so that there is a little to learn from every answer. Nothing is left to
chance but the picks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from benchmarks.training.credit.key_game import COLOURS, KeyGameView
from srl_envs.games import base
from srl_envs.games.base import vector_of


class ColourGame(base.SimultaneousGame):
    """What the three have in common; observations are (number of the agent, turns played)."""

    stakes: ClassVar[Sequence[float]]
    """What a right pick pays, by agent."""
    turns: ClassVar[int] = 1

    def __init__(self) -> None:
        super().__init__(
            [f"agent_{agent}" for agent in range(len(self.stakes))],
            COLOURS,
            low=(0.0, 0.0),
            high=(len(self.stakes), self.turns),
            reward_ceiling=max(self.stakes) * self.turns,
            max_cycles=self.turns,
        )

    def make_view(self) -> ColourView:
        """How it reads."""
        return ColourView()

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        """Nothing has happened."""
        return self._rows_now()

    def play_round(
        self, chosen: Sequence[int], over: bool
    ) -> tuple[Sequence[base.Row], Sequence[float], list[dict[str, Any]]]:
        """What the picks pay."""
        return self._rows_now(), self.paid(chosen, self.played - 1), [{} for _ in chosen]

    def paid(self, chosen: Sequence[int], turn: int) -> list[float]:
        """Agents' rewards for their picks of a turn (from 0)."""
        return [
            stake * (pick == (agent + turn) % len(COLOURS))
            for agent, (stake, pick) in enumerate(zip(self.stakes, chosen, strict=True))
        ]

    def baselines(self) -> dict[str, float]:
        """Mean reward per agent and turn."""
        best = sum(self.stakes) / len(self.stakes)
        return {"uniform": best / len(COLOURS), "optimum": best}

    def _rows_now(self) -> list[base.Row]:
        return [(agent, self.played) for agent in range(len(self.stakes))]


class Whose(ColourGame):
    """Eight agents and one turn; in a team all of them are paid the mean of all."""

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("whose_colour", fps=4)
    stakes = (1.0,) * 8


class When(ColourGame):
    """One agent and eight turns; what the right colour pays comes when the game ends, and the
    colour before it pays `NOW`, less, at once."""

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("when_colour", fps=4)
    stakes = (1.0,)
    turns = 8
    NOW: ClassVar[float] = 0.5

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        """Nothing is saved."""
        self._saved = 0.0
        return super().first_rows(options)

    def paid(self, chosen: Sequence[int], turn: int) -> list[float]:
        """What pays now; at the end, what was saved."""
        [right], [before_it] = super().paid(chosen, turn), super().paid(chosen, turn - 1)
        self._saved += right
        return [self.NOW * before_it + self._saved * (turn == self.turns - 1)]

    def baselines(self) -> dict[str, float]:
        """Mean reward per agent and turn."""
        return {"uniform": (self.NOW + 1) / len(COLOURS), "optimum": 1.0}


class HowMuch(ColourGame):
    """Eight agents and one turn; four are paid in coins of 1, four in coins of 100."""

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("how_much_colour", fps=4)
    stakes = (1.0,) * 4 + (100.0,) * 4


class ColourView(KeyGameView):
    """How the games read: as the key game, but that nobody is told how long they are."""

    def describe(self, agent: str, observation: Any) -> str:
        """Who and when."""
        return f"{agent}, turn {round(float(vector_of(observation)[1])) + 1}."
