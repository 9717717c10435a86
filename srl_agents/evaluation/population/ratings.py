"""Ratings of players by OpenSkill (the Plackett-Luce model), with their uncertainty."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

from srl_agents import seeding
from srl_agents.evaluation.population.cross_play import Game
from srl_agents.rollout.matchmaking import Ratings

SPREAD = 1.96
"""Standard deviations to either end of a 95 % interval."""
POINTS = 100
"""Of a history, at most."""

Match = Mapping[str, float]
"""Player -> score; higher is better, equal scores draw."""


@dataclass(frozen=True)
class Rating:
    """How strong a player is on OpenSkill's scale, on which all begin at 25."""

    player: str
    mu: float
    sigma: float
    interval: tuple[float, float]
    """95 %: mu -+ 1.96 sigma."""


@dataclass(frozen=True)
class Rated:
    """Ratings, best first, and how they came about."""

    by: str
    """What was compared: "winners", or "returns with the same partners"."""
    matches: int
    ratings: tuple[Rating, ...]
    history: Mapping[str, tuple[tuple[int, float], ...]]
    """Player -> (matches so far, mu)."""


def matches_of(games: Sequence[Game], two_sided: bool) -> tuple[str, list[Match]]:
    """(what is compared, the matches).

    Where games name winners, each game of two different players is a match. Else the players that
    held the same place with the same partner from the same start are ranked by what they earned
    there: in games that are no contests, earning less than one's partner is no defeat. Failed
    games make no match.
    """
    ended = [game for game in games if game.failure is None]
    if any(game.winner is not None for game in ended):
        points = {"first": (1.0, 0.0), "second": (0.0, 1.0), "draw": (0.5, 0.5)}
        return "winners", [
            dict(zip((game.first, game.second), points[game.winner], strict=True))
            for game in ended
            if game.winner is not None and game.first != game.second
        ]
    beside: dict[tuple[str, int, int], dict[str, float]] = {}
    for game in ended:
        assert game.first_return is not None and game.second_return is not None
        beside.setdefault((game.second, game.place, game.start), {})[game.first] = game.first_return
        if two_sided:  # the place that is left is the other one
            there = (game.first, 1 - game.place, game.start)
            beside.setdefault(there, {})[game.second] = game.second_return
    # A game with oneself is no meeting with a partner that others have met too.
    met = [
        {player: value for player, value in scores.items() if player != partner}
        for (partner, _, _), scores in beside.items()
    ]
    return "returns with the same partners", [match for match in met if len(match) > 1]


def can_rate() -> bool:
    """Return whether OpenSkill is installed."""
    return find_spec("openskill") is not None


def rate(players: Sequence[str], matches: Iterable[Match], by: str, seed: int) -> Rated:
    """The players' ratings after all matches, once each, in an order drawn from the seed."""
    ratings = Ratings(players)
    order = list(matches)
    seeding.generator(seed, "rating").shuffle(order)
    every = max(1, -(-len(order) // POINTS))
    history = {name: [(0, mu)] for name, mu in ratings.mu.items()}
    for number, match in enumerate(order, start=1):
        ratings.rate([[name] for name in match], [float(score) for score in match.values()])
        if number % every == 0 or number == len(order):
            for name, mu in ratings.mu.items():
                history[name].append((number, mu))
    sigmas = ratings.sigma
    rated = [
        Rating(name, mu, sigmas[name], (mu - SPREAD * sigmas[name], mu + SPREAD * sigmas[name]))
        for name, mu in ratings.mu.items()
    ]
    return Rated(
        by,
        len(order),
        tuple(sorted(rated, key=lambda one: -one.mu)),
        {name: tuple(points) for name, points in history.items()},
    )
