"""Interaction graphs: weighted edges between players, with simultaneous intervals over games."""

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
"""(source, target) of an edge."""
Floats = NDArray[np.float64]
LEVEL = 0.05
"""Probability that any edge of a graph is sure if no player has an effect."""
MOST_FLIPPED = 128
"""Games up to which signs are flipped: above it, Student's t is valid for discrete values too."""
SIGNS = 13
"""All 2^13 sign patterns are tried for 13 games, and as many random ones for more."""


@dataclass(frozen=True)
class Measure:
    """Meaning of the edges of a graph."""

    name: str
    title: str
    unit: str
    how: str
    """Method and its limits in one or two sentences."""


MEASURES: Mapping[str, Measure] = MappingProxyType({
    measure.name: measure
    for measure in (
        Measure(
            "influence",
            "Who helped and hurt whom",
            "reward per turn",
            "Counterfactual: turns were played again with one action changed. An edge is the "
            "target's reward in that turn minus its mean reward under the source's other legal "
            "actions. Effects in later turns are not included.",
        ),
        Measure(
            "traded",
            "Who traded with whom",
            "worth per game",
            "From the actions: worth to the target of the goods that the source delivered. In "
            "negotiations: the target's utility from the deal above no deal.",
        ),
        Measure(
            "broken",
            "Who broke its word to whom",
            "promises per game",
            "From the actions: deliveries that the source had agreed to and did not make.",
        ),
        Measure(
            "listened",
            "Who was listened to",
            "bits per turn",
            "Estimate: mutual information of the source's words and the hearer's next action, "
            "minus that with the words of other games. The measure shows no cause: the hearer "
            "may have seen the subject of the words.",
        ),
    )
})  # fmt: skip
"""Name to measure. Formulas and sources: docs/agents/interactions.md."""


@dataclass(frozen=True)
class Edge:
    """Effect of one player on another; both may be copies of one model."""

    source: str
    target: str
    value: float
    """Value in the measure's unit."""
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
    """Edges of one measure."""

    measure: Measure
    players: tuple[str, ...]
    edges: tuple[Edge, ...]

    def edge(self, source: str, target: str) -> Edge | None:
        """Return the edge between two players, or None."""
        return next((e for e in self.edges if (e.source, e.target) == (source, target)), None)


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
    if len(effect_G) > MOST_FLIPPED:
        return 0.0
    total_S = np.abs(_signs(len(effect_G), seed) @ effect_G)
    return float((total_S >= total_S[0] * (1.0 - 1e-9)).mean())


@lru_cache(maxsize=2)
def _signs(games: int, seed: int) -> Floats:
    if games <= SIGNS:
        minus_SG = np.arange(2**games)[:, None] >> np.arange(games) & 1
    else:
        rng = seeding.generator(seed, "bootstrap")
        minus_SG = rng.integers(2, size=(2**SIGNS, games))
        minus_SG[0] = 0
    return np.asarray(1.0 - 2.0 * minus_SG, np.float64)
