"""A game of signals and answers, of which each agent may be shown a part alone.

Every turn each agent is shown one of eight signals and answers with one of four colours. To each
signal one colour is right, which pays 1; nothing else pays. What others are shown or answer means
nothing to an agent, and what is right for one signal says nothing about another.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from srl_envs.games import base
from srl_envs.text import FixedChoices, any_of

AGENTS, TURNS = 2, 4
SIGNALS = ("bell", "drum", "flag", "gate", "horn", "lamp", "rope", "star")
COLOURS = ("red", "green", "blue", "white")
RIGHT = (2, 0, 3, 1, 1, 2, 0, 3)
"""Of each signal, the number of its colour; in no agent's part is one right twice."""


class Signals(base.SimultaneousGame):
    """The environment; an observation is the signal's number as a share of their number.

    `parts`: agent number i is shown every second signal only, from the i-th on; else any.
    """

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("signals", fps=4)

    def __init__(self, parts: bool = True) -> None:
        self.parts = parts
        self._shown_now: list[int] = []
        super().__init__(
            [f"agent_{agent}" for agent in range(AGENTS)],
            COLOURS,
            low=(0.0,),
            high=(1.0,),
            reward_ceiling=1.0,
            max_cycles=TURNS,
        )

    def baselines(self) -> dict[str, float]:
        """Mean reward per agent and turn: of uniform play, and of whoever knows."""
        return {"uniform": 1 / len(COLOURS), "optimum": 1.0}

    def make_view(self) -> SignalsView:
        """How it reads."""
        return SignalsView()

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        """The first signals."""
        return self._drawn()

    def play_round(
        self, chosen: Sequence[int], over: bool
    ) -> tuple[Sequence[base.Row], Sequence[float], list[dict[str, Any]]]:
        """1 for each agent whose colour is right, and the next signals."""
        paid = [
            float(RIGHT[signal] == colour)
            for signal, colour in zip(self._shown_now, chosen, strict=True)
        ]
        return self._drawn(), paid, [{} for _ in chosen]

    def _drawn(self) -> list[base.Row]:
        own = len(SIGNALS) // AGENTS
        if self.parts:
            drawn = AGENTS * self.np_random.integers(own, size=AGENTS) + range(AGENTS)
        else:
            drawn = self.np_random.integers(len(SIGNALS), size=AGENTS)
        self._shown_now = drawn.tolist()
        return [(signal / len(SIGNALS),) for signal in self._shown_now]


class SignalsView(FixedChoices):
    """How the game reads and is answered."""

    choices = COLOURS
    default_action = 0
    parse_penalty = 0.0

    def rules(self, agent: str) -> str:
        """The game and how to answer."""
        return f"Each signal has a colour: {any_of(COLOURS)}. Write that of the signal alone."

    def describe(self, agent: str, observation: Any) -> str:
        """The signal."""
        return f"{SIGNALS[round(float(observation[0]) * len(SIGNALS))]}."
