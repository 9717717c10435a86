"""Zero-shot coordination: models of independent runs meet in games with equivalent conventions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from benchmarks.claim import Request, Result, Settings
from benchmarks.games import Choices, Outcome, SmallGame
from benchmarks.runs import Run, answer_chances, assembled, grow_pools, rounds_of
from srl_agents.llm import tiny
from srl_envs.games import base
from srl_envs.text import TO_MOVE, any_of

AGENTS = ("agent_0", "agent_1")
LEVERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
PAID = np.array([1.0] * 9 + [0.9])
"""Reward of both agents if both choose this lever."""
ANIMALS, WORDS = ("cat", "dog", "fox", "owl"), ("ba", "di", "gu", "mo")
SIZE = len(WORDS)
WAIT, SEE, HEAR = range(3)
LEGAL = np.repeat(np.array([[1, 1], [1, 0], [0, 1]], np.int8), SIZE, axis=1)
"""Legal actions, first the words, indexed [WAIT, SEE or HEAR]."""
Strategy = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Probabilities (model, situation, signal) of the first agent, and those of the second agent
(model, signal, situation) times the reward, for all models of a run."""


class LeverView(Choices):
    """Text view of the lever game."""

    choices = LEVERS

    def rules(self, agent: str) -> str:
        return f"Two agents choose a lever: {any_of(LEVERS)}. Equal levers pay. Write one alone."

    def describe(self, agent: str, observation: Any) -> str:
        return "Your lever."


class LeverGame(SmallGame):
    """Two agents that choose the same of ten levers earn 1, or 0.9 with the last lever.

    The game is from Hu et al. 2020, "Other-Play". If `relabel` is true, the first nine levers,
    which are equivalent, have another order for the second agent in each episode.
    """

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("lever_game")
    view = LeverView

    def __init__(self, relabel: bool = False) -> None:
        self.relabel, self._levers = relabel, np.arange(len(LEVERS))
        super().__init__(AGENTS, LEVERS, low=(0.0, 0.0), high=(1.0, 1.0), max_cycles=1)

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        if self.relabel:
            self._levers[:-1] = self.np_random.permutation(len(LEVERS) - 1)
        return [(0, 0), (0, 0)]

    def play_round(self, chosen: Sequence[int], over: bool) -> Outcome:
        paid = float(PAID[chosen[0]] * (chosen[0] == self._levers[chosen[1]]))
        return [(0, 0), (0, 0)], [paid, paid], [{}, {}]

    @staticmethod
    def strategy(run: Run) -> Strategy:
        found = answer_chances(run, run.config.models.names, (0, 0))
        return found[:, None], (PAID * found)[..., None]


class MessageView(Choices):
    """Text view of the message game; `choices` has the words, then the animals."""

    choices = (*WORDS, *ANIMALS)

    def rules(self, agent: str) -> str:
        return "The speaker sees an animal and says a word. The listener names the animal."

    def describe(self, agent: str, observation: Any) -> str:
        kind, number = map(round, observation.tolist())
        shown = self.choices[number + SIZE * (kind == SEE)]
        return ("Wait.", f"You see: {shown}", f"You hear: {shown}")[kind]


class MessageGame(SmallGame):
    """A speaker sees one of four animals and says one of four words; a listener names the animal.

    A right answer pays 1 to both agents. The 24 bijections of animals and words are equivalent
    conventions. If `relabel` is true, the listener hears the words permuted, differently in each
    episode. If `reading` is true, the only legal action is to copy the seen animal or heard word.
    """

    metadata: ClassVar[dict[str, Any]] = base.metadata_of("message_game")
    view = MessageView

    def __init__(self, relabel: bool = False, reading: bool = False) -> None:
        self.relabel, self.reading = relabel, reading
        self._words, self._mover, self._row = np.arange(SIZE), 0, (SEE, 0)
        high = (float(HEAR), SIZE - 1.0)
        super().__init__(AGENTS, self.view.choices, low=(0.0, 0.0), high=high, max_cycles=2)

    def first_rows(self, options: Mapping[str, Any]) -> Sequence[base.Row]:
        self._mover, self._animal = self.np_random.integers((2, SIZE)).tolist()
        if self.relabel:
            self._words = self.np_random.permutation(SIZE)
        self._row = (SEE, self._animal)
        return self._rows_now()

    def first_infos(self) -> list[dict[str, Any]]:
        return [{TO_MOVE: agent == self._mover} for agent in range(2)]

    def masks(self) -> np.ndarray:
        kind, number = self._row
        copied = np.arange(2 * SIZE) == number + SIZE * (kind == SEE)
        masks = np.zeros((2, 2 * SIZE), np.int8)
        masks[1 - self._mover, 0] = 1
        masks[self._mover] = copied if self.reading else LEGAL[kind]
        return masks

    def play_round(self, chosen: Sequence[int], over: bool) -> Outcome:
        said = chosen[self._mover] % SIZE
        paid = float(over and said == self._animal)
        self._mover, self._row = 1 - self._mover, (HEAR, int(self._words[said]))
        return self._rows_now(), [paid, paid], self.first_infos()

    def _rows_now(self) -> Sequence[base.Row]:
        return [self._row if agent == self._mover else (WAIT, 0) for agent in range(2)]

    @staticmethod
    def strategy(run: Run, players: Sequence[str] = ()) -> Strategy:
        chances = partial(answer_chances, run, players or run.config.models.names)
        said = [chances((SEE, animal), LEGAL[SEE])[:, :SIZE] for animal in range(SIZE)]
        named = [chances((HEAR, word), LEGAL[HEAR])[:, SIZE:] for word in range(SIZE)]
        return np.stack(said, axis=1), np.stack(named, axis=1)


GAMES: Mapping[str, tuple[Any, Any]] = {
    "levers": (LeverGame, LeverGame),
    "messages": (MessageGame, partial(MessageGame, reading=True)),
}
"""Name -> (game, constructor of the game for which the starting models are built)."""


def measure(request: Request) -> Result:
    """Train every method in every game, and return one row per run (see `cross_play`).

    "paid" is partner's place -> expected reward, with the row's model as first agent or speaker.
    "above" is the difference in "cross_play" to the first method.
    """
    rows: list[dict[str, Any]] = []
    for name, (game, _) in GAMES.items():
        first: list[float] = []
        for method in request.claim.methods:
            found = [_trained(name, request.settings(method, seed=s)) for s in request.seeds]
            paid = np.array([[expected(one, other) for other in found] for one in found])
            scores = cross_play(paid)
            first = first or [score["cross_play"] for score in scores]
            for place, (seed, score) in enumerate(zip(request.seeds, scores, strict=True)):
                signals = found[place][0][0].argmax(axis=1)
                rows.append({
                    "game": name, "method": method, "seed": seed, **score,
                    "convention": " ".join(game.view.choices[signal] for signal in signals),
                    "paid": dict(enumerate(paid[place])),
                    "above": score["cross_play"] - first[place],
                })  # fmt: skip
    return Result(rows)


def expected(first: Strategy, second: Strategy) -> float:
    """Return the exact expected reward of a run's models as first agent and another's as second.

    Within one run, models meet each other, as in training.
    """
    paid = np.einsum("msw,nws->mn", first[0], second[1]) / first[0].shape[1]
    met = ~np.eye(len(paid), dtype=bool) if first is second and len(paid) > 1 else ...
    return float(paid[met].mean())


def cross_play(paid_SS: NDArray[np.float64]) -> list[dict[str, float]]:
    """Return "self_play", "cross_play" and "gap" (self-play minus cross-play) per seed.

    Cross-play is the mean of the entries outside the diagonal. Such entries share seeds, so the
    values per seed are jackknife pseudo-values (Arvesen 1969), whose mean is the cross-play and
    to which Student's t applies. At least three seeds are required.
    """
    size, own = len(paid_SS), paid_SS.diagonal()
    others = (paid_SS + paid_SS.T).sum(axis=1) - 2 * own
    total = others.sum() / 2
    values = total / (size - 1) - (total - others) / (size - 2)
    columns = {"self_play": own, "cross_play": values, "gap": own - values}
    return [{name: float(each[n]) for name, each in columns.items()} for n in range(size)]


def _trained(name: str, settings: Settings) -> Strategy:
    """Train a run, whose starting weights depend on its seed, and return its models' strategy."""
    game, practice = GAMES[name]
    start = str(tiny.folder(practice, seed=settings["seed"]))
    own = {"environment.name": f"{__name__}:{game.__name__}", "models.base": start}
    with assembled({**own, **settings}) as run:
        for _ in rounds_of(run):
            grow_pools(run, run.next_round)
        found: Strategy = game.strategy(run)
        return found
