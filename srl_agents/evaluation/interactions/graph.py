"""Interaction graphs: directed, weighted edges between players, with their intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from srl_agents.evaluation.bootstrap import bootstrap_interval

Pair = tuple[str, str]
"""(source, target): who acted, gave or spoke, and whom it reached."""
FEWEST = 6
"""Games from which an interval says something: n values of an even chance are all on one side of
zero, and with them the means of all resamples, with probability 2^(1 - n)."""


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
    """95 %, games drawn anew; None for a single game."""
    games: int

    @property
    def sure(self) -> bool:
        """Whether FEWEST games or more leave zero out of the interval; of twenty edges that are
        nothing, one is expected to be."""
        low, high = self.interval or (0.0, 0.0)
        return self.games >= FEWEST and (low > 0.0 or high < 0.0)


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


def mean_edges(found: Iterable[tuple[int, Pair, float]], seed: int) -> tuple[Edge, ...]:
    """The mean of the values of each pair of players; `found` has (game, pair, value).

    Values of one game are drawn together for the intervals. The edges come in order of their ends.
    """
    values: dict[Pair, list[float]] = {}
    games: dict[Pair, list[int]] = {}
    for game, pair, value in found:
        values.setdefault(pair, []).append(value)
        games.setdefault(pair, []).append(game)
    return tuple(
        Edge(
            *pair,
            value=sum(own) / len(own),
            interval=bootstrap_interval(own, seed, games[pair]),
            games=len(set(games[pair])),
        )
        for pair, own in sorted(values.items())
    )
