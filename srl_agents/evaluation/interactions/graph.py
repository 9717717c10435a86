"""Interaction graphs: directed, weighted edges between players, with their intervals."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from srl_agents import seeding
from srl_agents.evaluation.bootstrap import t_quantile

Pair = tuple[str, str]
"""(source, target): who acted, gave or spoke, and whom it reached."""
Floats = NDArray[np.float64]
LEVEL = 0.05
"""Probability that any edge of a graph is sure if none of its players has an effect."""
MOST_FLIPPED = 128
"""Games up to which signs are flipped: above it, Student's t holds for discrete values too."""
SIGNS = 13
"""All 2^13 sign patterns are tried for 13 games, and as many random ones for more."""


@dataclass(frozen=True)
class Measure:
    """What the edges of a graph are."""

    name: str
    title: str
    unit: str
    how: str
    """What was measured and what it does not say, in a sentence or two."""
    directed: bool = True


MEASURES: Mapping[str, Measure] = MappingProxyType({
    measure.name: measure
    for measure in (
        Measure(
            "influence",
            "Who helped and hurt whom",
            "reward per turn",
            "Counterfactual: turns were played again with one action changed. An edge is what the "
            "action taken gave the other in that turn, less what the source's other legal actions "
            "would have given; what comes of it in later turns is not in it.",
        ),
        Measure(
            "correlation",
            "Whose rewards went together",
            "correlation",
            "Correlation, which has no direction and no cause: of the two players' rewards, turn "
            "by turn. Shown because these games cannot be played again.",
            directed=False,
        ),
        Measure(
            "traded",
            "Who traded with whom",
            "worth per game",
            "From the moves: the worth, to who received it, of the goods that the source "
            "delivered; in negotiations what the deal with the source paid above no deal.",
        ),
        Measure(
            "broken",
            "Who broke its word to whom",
            "promises per game",
            "From the moves: deliveries that the source had agreed to and did not make.",
        ),
        Measure(
            "listened",
            "Who was listened to",
            "bits per turn",
            "Estimate: mutual information of the source's words and the hearer's next action, "
            "less that with the words of other games. It has no direction of cause: the hearer "
            "may have seen what the words were about.",
        ),
        Measure(
            "heeded",
            "Whose words were acted on",
            "share of turns",
            "Counterfactual: the hearer was asked again with these words taken out of what it saw, "
            "its memory and random numbers the same. An edge is how often it then acted otherwise.",
        ),
    )
})  # fmt: skip
"""Name -> measure. Formulas and sources: docs/agents/interactions.md."""


@dataclass(frozen=True)
class Edge:
    """One player's part in another's games; the two may be copies of one model."""

    source: str
    target: str
    value: float
    """In the measure's unit."""
    interval: tuple[float, float] | None
    """95 % for all edges of the graph together, see `tested_edges`; None for a single game."""
    games: int

    @property
    def sure(self) -> bool:
        """True if the interval excludes zero."""
        low, high = self.interval or (0.0, 0.0)
        return low > 0.0 or high < 0.0


@dataclass(frozen=True)
class Graph:
    """The edges of one measure."""

    measure: Measure
    players: tuple[str, ...]
    edges: tuple[Edge, ...]

    def edge(self, source: str, target: str) -> Edge | None:
        """The edge between the two, or None."""
        ends = {(source, target)} if self.measure.directed else {(source, target), (target, source)}
        return next((edge for edge in self.edges if (edge.source, edge.target) in ends), None)


class Measured(NamedTuple):
    """Estimate of one edge from independent games."""

    value: float
    error: float
    """Standard error of `value`, from the differences between games."""
    effect_G: Floats
    """Effect in each game: without any effect, its distribution is symmetric about zero."""


def mean_edges(found: Iterable[tuple[int, Pair, float]], seed: int) -> tuple[Edge, ...]:
    """Return an edge with the mean of the values of each pair of players.

    Args:
        found: (game, pair, value), any number of values per game and pair.
        seed: Seed of the random sign patterns.
    """
    values: dict[Pair, dict[int, list[float]]] = {}
    for game, pair, value in found:
        values.setdefault(pair, {}).setdefault(game, []).append(value)
    measured = {}
    for pair, by_game in values.items():
        sum_G = np.array([math.fsum(own) for own in by_game.values()])
        size_G = np.array([len(own) for own in by_game.values()])
        value, games = float(sum_G.sum() / size_G.sum()), len(by_game)
        # Values of one game are not independent: their deviations count as one.
        deviation_G = (sum_G - value * size_G) / size_G.mean()
        spread = float(np.square(deviation_G).sum())
        error = math.sqrt(spread / games / (games - 1)) if games > 1 else math.nan
        measured[pair] = Measured(value, error, sum_G)
    return tested_edges(measured, seed)


def tested_edges(measured: Mapping[Pair, Measured], seed: int) -> tuple[Edge, ...]:
    """Return the edges of one graph, in order of their ends, with simultaneous intervals.

    The intervals are Student's t with Bonferroni's correction for the number of edges. Student's t
    is too narrow for few discrete values, so an interval also includes zero where a sign-flip test
    (Fisher 1935) at the corrected level does not reject zero.
    """
    level = LEVEL / max(1, len(measured))
    edges = []
    for pair, own in sorted(measured.items()):
        games, interval = len(own.effect_G), None
        if games > 1:
            half = t_quantile(1.0 - level, games - 1) * own.error
            low, high = own.value - half, own.value + half
            if (low > 0.0 or high < 0.0) and _sign_flip_p(own.effect_G, seed) > level:
                low, high = min(low, 0.0), max(high, 0.0)
            interval = low, high
        edges.append(Edge(*pair, own.value, interval, games))
    return tuple(edges)


def _sign_flip_p(effect_G: Floats, seed: int) -> float:
    """Return the share of sign patterns with a total at least as far from zero as the real one."""
    if len(effect_G) > MOST_FLIPPED:
        return 0.0
    total_S = np.abs(_signs(len(effect_G), seed) @ effect_G)
    return float((total_S >= total_S[0] * (1.0 - 1e-9)).mean())


@lru_cache(maxsize=2)
def _signs(games: int, seed: int) -> Floats:
    """Return sign patterns, (pattern, game); the first has no minus."""
    if games <= SIGNS:
        minus_SG = np.arange(2**games)[:, None] >> np.arange(games) & 1
    else:
        rng = seeding.generator(seed, "bootstrap")
        minus_SG = rng.integers(2, size=(2**SIGNS, games))
        minus_SG[0] = 0
    return np.asarray(1.0 - 2.0 * minus_SG, np.float64)
