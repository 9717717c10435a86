"""The games of `benchmarks.peers` in this library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from benchmarks.games import Choices, Outcome
from benchmarks.peer_sides.words import CHOICES, PAYOFFS, RULES, TURNS, situation
from srl_envs import make
from srl_envs.games import base
from srl_envs.games.base import vector_of


def solo() -> Any:
    """Return the game of one model against tit for tat, four steps."""
    return make("coop_compete_v0", variant="pair", num_agents=2, max_cycles=4)


class TeamView(Choices):
    """Text view of the common-payoff game."""

    choices = CHOICES
    default_action = 1

    def rules(self, agent: str) -> str:
        return RULES

    def describe(self, agent: str, observation: Any) -> str:
        first, own, partner, turn = (int(number) for number in vector_of(observation))
        return situation(turn, None if first else (own, partner))


class Team(base.SimultaneousGame):
    """Two agents choose at once and receive the same payoff, which depends on this step alone.

    Observations are (1 at the first step, own last choice, partner's last choice, number of the
    step from 1).
    """

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("team_words", fps=4)

    def __init__(self) -> None:
        agents, high = ["agent_0", "agent_1"], (1, 1, 1, TURNS + 1)
        super().__init__(agents, CHOICES, low=(0, 0, 0, 0), high=high, max_cycles=TURNS)

    def make_view(self) -> TeamView:
        return TeamView()

    def baselines(self) -> dict[str, float]:
        return {"uniform": sum(PAYOFFS.values()) / 4, "optimum": max(PAYOFFS.values())}

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        return [(1, 0, 0, 1)] * 2

    def play_round(self, chosen: Sequence[int], over: bool) -> Outcome:
        own, partner = (int(choice) for choice in chosen)
        turn = self.played + 1
        rows = [(0, own, partner, turn), (0, partner, own, turn)]
        return rows, [PAYOFFS[own, partner]] * 2, [{}, {}]
