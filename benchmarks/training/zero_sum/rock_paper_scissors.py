"""Biased rock-paper-scissors in words: rock's victory pays three, the others one.

The equilibrium plays rock and scissors with 1/5 each and paper with 3/5 (after Abe et al. 2022,
sec. 5, whose payoffs are a third of these). What uniform play loses to its best response, paper or
rock, is 2/3.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from benchmarks.training.zero_sum.answer_chances import chances_along
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_envs.games import base
from srl_envs.text import FixedChoices, any_of
from srl_extensions.judging import exploitability as matrix_games

MOVES = ("rock", "paper", "scissors")
PAYOFFS = np.array([[0.0, -1.0, 3.0], [1.0, 0.0, -1.0], [-3.0, 1.0, 0.0]])
"""[own, other]: what the own move earns."""
AGENTS = ("player_0", "player_1")


class BiasedRockPaperScissors(base.SimultaneousGame):
    """One round; nothing is observed."""

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("biased_rock_paper_scissors")

    def __init__(self) -> None:
        super().__init__(
            AGENTS,
            MOVES,
            low=(0.0,),
            high=(1.0,),
            reward_ceiling=float(PAYOFFS.max()),
            max_cycles=1,
        )

    def baselines(self) -> dict[str, float]:
        """Mean reward per agent and turn."""
        return {"uniform": 0.0, "optimum": 0.0}

    def make_view(self) -> MovesView:
        """How it reads."""
        return MovesView()

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        """Nothing is known."""
        return [(0.0,), (0.0,)]

    def play_round(
        self, chosen: Sequence[int], over: bool
    ) -> tuple[Sequence[base.Row], Sequence[float], list[dict[str, Any]]]:
        """What one wins the other loses."""
        self.finished = True
        won = float(PAYOFFS[chosen[0], chosen[1]])
        return [(0.0,), (0.0,)], [won, -won], [{}, {}]


class MovesView(FixedChoices):
    """How the game reads and is answered."""

    choices = MOVES
    default_action = 0
    parse_penalty = 0.0

    def rules(self, agent: str) -> str:
        """The game and how to answer."""
        return (
            "Rock beats scissors and wins 3. Paper beats rock and wins 1. Scissors beat paper and "
            f"win 1. Write {any_of(MOVES)} alone."
        )

    def describe(self, agent: str, observation: Any) -> str:
        """Both move at once."""
        return "Your move."


def exploitability(chances_M: Sequence[float]) -> float:
    """What a best response gains on whoever plays the moves with these chances, exactly."""
    return matrix_games.exploitability([PAYOFFS, -PAYOFFS], [chances_M, chances_M])


def mixture(strategies: Sequence[Sequence[float]], weights: Sequence[float]) -> list[float]:
    """The chances of the moves where one of the strategies is drawn for each game, by these
    weights."""
    mixed = np.average(strategies, axis=0, weights=weights)
    return [float(chance) for chance in mixed]


def asked(backend: HuggingFaceBackend) -> list[float]:
    """The model's chances of the moves."""
    return chances_along(backend, MovesView(), AGENTS[0], [((0.0,), 0)])
