"""Small games of the claims; each tests one property of a learner."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from srl_envs.games import base
from srl_envs.games.base import vector_of
from srl_envs.text import FixedChoices, any_of

COLOURS = ("red", "green", "blue", "white")
Outcome = tuple[Sequence[base.Row], Sequence[float], list[dict[str, Any]]]
"""Observations, rewards and infos by agent."""


class Choices(FixedChoices):
    """Text view of a small game; an unreadable answer costs nothing."""

    choices = COLOURS
    default_action = 0
    parse_penalty = 0.0


class SmallGame(base.SimultaneousGame):
    """Base class of games whose text view and baselines are constants of the class.

    `known` has the baselines: mean rewards per agent and turn. Subclasses define `_rows_now`, the
    current observations of all agents.
    """

    view: ClassVar[type[Choices]]
    known: ClassVar[Mapping[str, float]] = {"uniform": 0.0, "optimum": 0.0}

    def make_view(self) -> Choices:
        return self.view()

    def baselines(self) -> dict[str, float]:
        return dict(self.known)

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        return self._rows_now()

    def _rows_now(self) -> Sequence[base.Row]:
        raise NotImplementedError


# Games of colours --------------------------------------------------------------------------------


class ColourView(Choices):
    """Text view of the games of colours."""

    def rules(self, agent: str) -> str:
        return f"You are {agent}. Each turn pick a colour: {any_of(COLOURS)}. Write it alone."

    def describe(self, agent: str, observation: Any) -> str:
        return f"{agent}, turn {round(float(vector_of(observation)[1])) + 1}."


class ColourGame(SmallGame):
    """Every turn every agent picks one of four colours, of which one is right.

    The right colour depends on agent and turn. Observations are (agent, played turns).
    """

    stakes: ClassVar[Sequence[float]]
    """Reward of a right pick, by agent."""
    view = ColourView
    turns: ClassVar[int] = 1

    def __init__(self) -> None:
        agents = [f"agent_{n}" for n in range(len(self.stakes))]
        high = (len(self.stakes), self.turns)
        super().__init__(agents, COLOURS, low=(0.0, 0.0), high=high, max_cycles=self.turns)

    def play_round(self, chosen: Sequence[int], over: bool) -> Outcome:
        return self._rows_now(), self.paid(chosen, self.played - 1), [{} for _ in chosen]

    def paid(self, chosen: Sequence[int], turn: int) -> list[float]:
        """Return the reward of each agent for its pick (number of a colour) in a turn, from 0."""
        return [
            stake * (pick == (agent + turn) % len(COLOURS))
            for agent, (stake, pick) in enumerate(zip(self.stakes, chosen, strict=True))
        ]

    def _rows_now(self) -> list[base.Row]:
        return [(agent, self.played) for agent in range(len(self.stakes))]


class Whose(ColourGame):
    """Eight agents and one turn; a team is paid the mean of all agents."""

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("whose_colour", fps=4)
    known: ClassVar = {"uniform": 0.25, "optimum": 1.0}
    stakes = (1.0,) * 8


class When(ColourGame):
    """One agent and eight turns; the right colour pays at the end, a worse one (`NOW`) at once."""

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("when_colour", fps=4)
    known: ClassVar = {"uniform": 0.375, "optimum": 1.0}
    stakes = (1.0,)
    turns = 8
    NOW: ClassVar[float] = 0.5

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        self._saved = 0.0
        return super().first_rows(options)

    def paid(self, chosen: Sequence[int], turn: int) -> list[float]:
        """Return [NOW for the colour before the right one, plus all saved rewards at the end]."""
        [right], [before_it] = super().paid(chosen, turn), super().paid(chosen, turn - 1)
        self._saved += right
        return [self.NOW * before_it + self._saved * (turn == self.turns - 1)]


class HowMuch(ColourGame):
    """Eight agents and one turn; four are paid in coins of 1, four in coins of 100."""

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("how_much_colour", fps=4)
    known: ClassVar = {"uniform": 12.625, "optimum": 50.5}
    stakes = (1.0,) * 4 + (100.0,) * 4


# Signals -----------------------------------------------------------------------------------------

SIGNALS = ("bell", "drum", "flag", "gate", "horn", "lamp", "rope", "star")
RIGHT = (2, 0, 3, 1, 1, 2, 0, 3)
"""Number of each signal's colour; no colour occurs twice in an agent's part."""


class SignalsView(Choices):
    """Text view of the game of signals."""

    def rules(self, agent: str) -> str:
        return f"Each signal has a colour: {any_of(COLOURS)}. Write that of the signal alone."

    def describe(self, agent: str, observation: Any) -> str:
        return f"{SIGNALS[round(float(observation[0]) * len(SIGNALS))]}."


class Signals(SmallGame):
    """Agents answer signals with colours; the right colour of a signal pays 1.

    Each agent sees only its own half (two agents) or quarter (four agents) of the signals. An
    observation is the signal's number as a share of their number.
    """

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("signals", fps=4)
    view = SignalsView
    known: ClassVar = {"uniform": 0.25, "optimum": 1.0}

    def __init__(self, agents: int = 2, turns: int = 4) -> None:
        self._shown_now: list[int] = []
        names = [f"agent_{agent}" for agent in range(agents)]
        super().__init__(names, COLOURS, low=(0.0,), high=(1.0,), max_cycles=turns)

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        return self._drawn()

    def play_round(self, chosen: Sequence[int], over: bool) -> Outcome:
        paid = [float(RIGHT[s] == c) for s, c in zip(self._shown_now, chosen, strict=True)]
        return self._drawn(), paid, [{} for _ in chosen]

    def _drawn(self) -> list[base.Row]:
        count = len(self.possible_agents)
        drawn = count * self.np_random.integers(len(SIGNALS) // count, size=count) + range(count)
        self._shown_now = drawn.tolist()
        return [(signal / len(SIGNALS),) for signal in self._shown_now]
