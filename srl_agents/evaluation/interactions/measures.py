"""Interaction graphs of several games: who helped, hurt, traded with and listened to whom."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from srl_agents import seeding
from srl_agents.episode import Episode
from srl_agents.evaluation.interactions.correlation import reward_correlations
from srl_agents.evaluation.interactions.games import Observed, observe
from srl_agents.evaluation.interactions.graph import MEASURES, Edge, Graph, Pair, mean_edges
from srl_agents.evaluation.interactions.listening import Heard, information


@dataclass(frozen=True)
class Interactions:
    """The graphs of some games."""

    graphs: tuple[Graph, ...]
    """Of the measures that there was anything to measure of, in MEASURES's order."""
    games: int
    not_replayed: tuple[str, ...]
    """Why games could not be played again, each reason once."""

    def graph(self, measure: str) -> Graph | None:
        """The graph of a measure, or None."""
        return next((graph for graph in self.graphs if graph.measure.name == measure), None)


def interactions(
    episodes: Iterable[Episode], seed: int = 0, *, trusted: bool = False
) -> Interactions:
    """The graphs of these games, edges between players: agents that one name played count together,
    whichever places they had. Failed episodes are left out.

    The same games and seed give the same numbers. Code that records name runs only where they are
    `trusted`.
    """
    played = (episode for episode in episodes if episode.failure is None)
    return graphs([observe(episode, seed, trusted=trusted) for episode in played], seed)


def graphs(games: Sequence[Observed], seed: int = 0) -> Interactions:
    """The graphs of games that were observed one by one.

    Help and hurt are measured by counterfactual where every game could be played again, and else
    by correlation of all; the two are never mixed.
    """
    reasons = tuple(dict.fromkeys(game.not_replayed for game in games if game.not_replayed))
    edges: dict[str, tuple[Edge, ...]] = {}
    if reasons:
        edges["correlation"] = reward_correlations(
            [game.rewards for game in games], [game.players for game in games], seed
        )
    else:
        edges["influence"] = mean_edges(_by_players([g.effects for g in games], games), seed)
    for name in ("traded", "broken"):
        sums = [game.deals and getattr(game.deals, name) for game in games]
        edges[name] = mean_edges(_by_players(sums, games), seed)
    # Information is never negative: an estimate below zero says that there is none.
    edges["listened"] = tuple(
        replace(edge, interval=(edge.interval[0], max(0.0, edge.interval[1])))
        if edge.interval
        else edge
        for edge in mean_edges(_listening(games, seed), seed)
    )
    players = tuple(sorted({name for game in games for name in game.players.values()}))
    return Interactions(
        tuple(Graph(MEASURES[name], players, edges[name]) for name in MEASURES if edges.get(name)),
        len(games),
        reasons,
    )


def _between(game: Observed, pair: Pair) -> Pair:
    return game.players[pair[0]], game.players[pair[1]]


def _by_players(
    found: Iterable[Mapping[Pair, float] | None], games: Sequence[Observed]
) -> Iterator[tuple[int, Pair, float]]:
    """What was found in each game, agents by who played them."""
    for number, (game, own) in enumerate(zip(games, found, strict=True)):
        for pair, value in (own or {}).items():
            yield number, _between(game, pair), value


def _listening(games: Sequence[Observed], seed: int) -> Iterator[tuple[int, Pair, float]]:
    """Turn by turn; words stand for other words only between the same agents and players."""
    rng = seeding.generator(seed, "interactions")
    heard: dict[tuple[Pair, Pair], dict[int, tuple[Heard, ...]]] = {}
    for number, game in enumerate(games):
        for pair, turns in game.heard.items():
            heard.setdefault((pair, _between(game, pair)), {})[number] = turns
    for (_, players), by_game in sorted(heard.items()):
        numbers = [number for number, turns in by_game.items() for _ in turns]
        bits = information(list(by_game.values()), rng).tolist()
        yield from ((number, players, own) for number, own in zip(numbers, bits, strict=False))
