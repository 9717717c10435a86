"""Kuhn poker in words (Kuhn 1950), and exact best responses in it.

Three cards, an ante of 1, one bet of 1. In equilibrium whoever acts first loses 1/18 a game. Who
does is drawn with the cards, from the seed of the game.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from benchmarks.training.zero_sum.answer_chances import chances_along
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_envs.games import base
from srl_envs.text import TO_MOVE, FixedChoices, any_of

CARDS = ("jack", "queen", "king")
CHOICES = ("pass", "bet")
PASS, BET = 0, 1
AGENTS = ("player_0", "player_1")
History = tuple[int, ...]
OPEN: tuple[History, ...] = ((), (PASS,), (BET,), (PASS, BET))
"""What may have been chosen while the game goes on: after an even number of choices it is for
whoever acts first."""
Situation = tuple[int, History]
"""(own card, what was chosen): an information set."""
SITUATIONS: tuple[Situation, ...] = tuple(itertools.product(range(len(CARDS)), OPEN))
Strategy = Mapping[Situation, float]
"""The chance of betting."""
DEALS = tuple(itertools.permutations(range(len(CARDS)), 2))
"""(the first's card, the second's)."""


def earned(deal: tuple[int, int], chosen: History) -> float:
    """What whoever acts first wins once the game is over."""
    if chosen == (BET, PASS):
        return 1.0
    if chosen == (PASS, BET, PASS):
        return -1.0
    stake = 2.0 if BET in chosen else 1.0
    return stake if deal[0] > deal[1] else -stake


class KuhnPoker(base.SimultaneousGame):
    """The environment; observations are (own card, whether one acts first, number of OPEN)."""

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("kuhn_poker")

    def __init__(self) -> None:
        self._deal, self._opener = DEALS[0], 0
        self._history: History = ()
        super().__init__(
            AGENTS,
            CHOICES,
            low=(0.0, 0.0, 0.0),
            high=(len(CARDS) - 1.0, 1.0, float(len(OPEN))),
            reward_ceiling=2.0,
            max_cycles=3,
        )

    def baselines(self) -> dict[str, float]:
        """Mean reward per agent and turn."""
        return {"uniform": 0.0, "optimum": 0.0}

    def make_view(self) -> PokerView:
        """How it reads."""
        return PokerView()

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        """Deal."""
        self._deal = DEALS[int(self.np_random.integers(len(DEALS)))]
        self._opener = int(self.np_random.integers(2))
        self._history = ()
        return self._rows_now()

    def first_infos(self) -> list[dict[str, Any]]:
        """Whose turn it is."""
        return [{TO_MOVE: agent == self._mover} for agent in range(2)]

    def masks(self) -> np.ndarray:
        """Who waits may only pass."""
        masks = self._every_action.copy()
        masks[1 - self._mover, BET] = 0
        return masks

    def play_round(
        self, chosen: Sequence[int], over: bool
    ) -> tuple[Sequence[base.Row], Sequence[float], list[dict[str, Any]]]:
        """One choice; what one wins the other loses."""
        self._history = (*self._history, chosen[self._mover])
        self.finished = self._history not in OPEN
        won = earned(self._deal, self._history) if self.finished else 0.0
        paid = [won, -won] if self._opener == 0 else [-won, won]
        return self._rows_now(), paid, self.first_infos()

    @property
    def _mover(self) -> int:
        return (self._opener + len(self._history)) % 2

    def _rows_now(self) -> list[base.Row]:
        return [
            observation(self._deal[agent != self._opener], agent == self._opener, self._history)
            for agent in range(2)
        ]


def observation(card: int, first: bool, history: History) -> base.Row:
    """What an agent with this card observes."""
    number = OPEN.index(history) if history in OPEN else len(OPEN)
    return (float(card), float(first), float(number))


class PokerView(FixedChoices):
    """How the game reads and is answered."""

    choices = CHOICES
    default_action = PASS
    parse_penalty = 0.0

    def rules(self, agent: str) -> str:
        """The game and how to answer."""
        return (
            "Kuhn poker: jack, queen and king, the higher wins. Both have put in 1, a bet adds 1. "
            f"Write {any_of(CHOICES)} alone."
        )

    def describe(self, agent: str, observation: Any) -> str:
        """What was done, and the card."""
        card, _, number = (round(float(value)) for value in observation)
        if number == len(OPEN):
            return "The game is over."
        done = ("You act first.", "The other passed.", "The other bet.", "You passed, it bet.")
        return f"{done[number]} Your card: {CARDS[card]}"


def value(first: Strategy, second: Strategy) -> float:
    """What whoever acts first earns a game, exactly."""
    return sum(_from(deal, (), first, second) for deal in DEALS) / len(DEALS)


def exploitability(strategy: Strategy) -> float:
    """What a best response to the strategy gains, averaged over acting first and second; 0 in
    equilibrium alone."""
    first = _best(lambda deal, own: _from(deal, (), own, strategy), place=0)
    second = _best(lambda deal, own: -_from(deal, (), strategy, own), place=1)
    return (first + second) / 2


def mixture(strategies: Sequence[Strategy], weights: Sequence[float]) -> dict[Situation, float]:
    """The one strategy that plays as whoever draws one of them for each game, by these weights:
    each counts in a situation by how likely its own choices lead there (Kuhn 1953)."""
    mixed = {}
    for card, history in SITUATIONS:
        own = [
            weight * (1 - one[card, ()] if len(history) == 2 else 1.0)
            for one, weight in zip(strategies, weights, strict=True)
        ]
        bets = [weight * one[card, history] for weight, one in zip(own, strategies, strict=True)]
        mixed[card, history] = sum(bets) / sum(own) if sum(own) else 0.5  # else nobody is there
    return mixed


def asked(backend: HuggingFaceBackend) -> dict[Situation, float]:
    """The model's chance of betting in every situation."""
    found = {}
    for card, history in SITUATIONS:
        first = len(history) % 2 == 0
        course = [(observation(card, True, ()), PASS)] if len(history) == 2 else []
        course.append((observation(card, first, history), PASS))
        found[card, history] = chances_along(backend, PokerView(), AGENTS[0], course)[BET]
    return found


def _from(deal: tuple[int, int], history: History, first: Strategy, second: Strategy) -> float:
    """What whoever acts first earns from here on."""
    if history not in OPEN:
        return earned(deal, history)
    mover = len(history) % 2
    bets = (first, second)[mover][deal[mover], history]
    return sum(
        chance * _from(deal, (*history, choice), first, second)
        for choice, chance in ((PASS, 1 - bets), (BET, bets))
        if chance
    )


def _best(earns: Any, place: int) -> float:
    """The most that any pure plan earns: each card has its own, and what one holds tells nothing of
    what one would do with another."""
    total = 0.0
    own_turns = [history for history in OPEN if len(history) % 2 == place]
    for card in range(len(CARDS)):
        dealt = [deal for deal in DEALS if deal[place] == card]
        total += max(
            sum(earns(deal, dict(zip([(card, h) for h in own_turns], plan, strict=True)))
                for deal in dealt)
            for plan in itertools.product((0.0, 1.0), repeat=len(own_turns))
        )  # fmt: skip
    return total / len(DEALS)
