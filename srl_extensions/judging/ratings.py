"""Rankings of players: OpenSkill ratings of matches, and α-Rank of payoff matrices."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec

import numpy as np
from numpy.typing import ArrayLike

from srl_agents import seeding
from srl_agents.evaluation.nash_averaging import Floats, margins, nash_average, square
from srl_envs.loading import needed_by
from srl_extensions.judging.cross_play import ArenaGames, PairGame

SPREAD = 1.96
"""Standard deviations from the mean to each end of a 95 % interval."""
WINNERS, RETURNS = "winners", "returns with the same partners"
NEUTRAL = 0.01
"""Fixation probability of a worse mutant in the limit of strong selection, relative to that of a
better one. The chain reaches every player because it is above 0."""

Match = Mapping[str, float]
"""Player to score; higher is better, equal scores draw."""


@dataclass(frozen=True)
class Rating:
    """Strength of a player on OpenSkill's scale, which starts at 25."""

    player: str
    mu: float
    sigma: float
    interval: tuple[float, float]
    """95 %: mu -+ 1.96 sigma."""


@dataclass(frozen=True)
class Rated:
    """Ratings in descending order."""

    by: str
    """Compared quantity: winners or returns."""
    matches: int
    ratings: tuple[Rating, ...]


def matches_of(games: Sequence[PairGame], two_sided: bool) -> tuple[str, list[Match]]:
    """Return the compared quantity and the matches of the games.

    If games name winners, each game between two different players is a match. Otherwise players
    that had the same place, partner and start are ranked by their returns. Failed games are left
    out, and so are games of a player with itself.
    """
    complete = [game for game in games if game.failure is None]
    if any(game.winner is not None for game in complete):
        points = {"first": (1.0, 0.0), "second": (0.0, 1.0), "draw": (0.5, 0.5)}
        return WINNERS, [
            dict(zip((game.first, game.second), points[game.winner], strict=True))
            for game in complete
            if game.winner is not None and game.first != game.second
        ]
    scores: dict[tuple[str, int, int], dict[str, float]] = {}
    for game in complete:
        assert game.first_return is not None and game.second_return is not None
        scores.setdefault((game.second, game.place, game.start), {})[game.first] = game.first_return
        if two_sided:  # The agents that the first player leaves are the other place.
            place = (game.first, 1 - game.place, game.start)
            scores.setdefault(place, {})[game.second] = game.second_return
    matches = [
        {player: value for player, value in own.items() if player != partner}
        for (partner, _, _), own in scores.items()
    ]
    return RETURNS, [match for match in matches if len(match) > 1]


def can_rate() -> bool:
    """Return True if OpenSkill is installed."""
    return find_spec("openskill") is not None


def rate(players: Sequence[str], matches: Iterable[Match], by: str, seed: int) -> Rated:
    """Rate the players by all matches, once each, in an order drawn from the seed."""
    with needed_by("ratings of players"):
        from openskill.models import PlackettLuce
    model = PlackettLuce()
    ratings = {name: model.rating(name=name) for name in players}
    order = list(matches)
    seeding.generator(seed, "rating").shuffle(order)
    for match in order:
        sides = [[ratings[name]] for name in match]
        after = model.rate(sides, scores=[float(score) for score in match.values()])
        ratings |= {name: own for name, [own] in zip(match, after, strict=True)}
    found = {name: (float(own.mu), float(own.sigma)) for name, own in ratings.items()}
    rated = [
        Rating(name, mu, sigma, (mu - SPREAD * sigma, mu + SPREAD * sigma))
        for name, (mu, sigma) in found.items()
    ]
    return Rated(by, len(order), tuple(sorted(rated, key=lambda one: -one.mu)))


def rate_together(played: Sequence[ArenaGames], seed: int) -> Rated:
    """Rate the players by the games of one or several arenas, which are one pool of matches."""
    players = dict.fromkeys(name for one in played for name in one.players)
    found = [matches_of(one.games, one.two_sided) for one in played]
    compared = {by for by, _ in found}
    matches = [match for _, own in found for match in own]
    by = compared.pop() if len(compared) == 1 else f"{WINNERS}, elsewhere {RETURNS}"
    return rate(list(players), matches, by, seed)


def rankings(payoffs_NN: Floats, players: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return the α-Rank share, the Nash weight and the Nash value of each player."""
    shares, (weights, values) = alpha_rank(payoffs_NN), nash_average(payoffs_NN)
    return {
        name: {"alpha_rank": float(share), "nash_weight": float(weight), "nash_value": float(value)}
        for name, share, weight, value in zip(players, shares, weights, values, strict=True)
    }


def alpha_rank(payoffs_NN: ArrayLike) -> Floats:
    """Compute the stationary distribution of α-Rank over players, shape (player,).

    One population with the local selection of Omidshafiei et al. 2019, "α-Rank: Multi-Agent
    Evaluation by Evolution", in the limit of strong selection, which depends on the order of
    payoffs only.

    Args:
        payoffs_NN: Payoffs of the row's player against the column's.

    Raises:
        ValueError: If the matrix is not square, finite and of at least two players.
    """
    payoffs = square(payoffs_NN)
    lead = margins(payoffs).T  # [resident, mutant]
    fixation = np.where(lead > 0, 1.0 - NEUTRAL, np.where(lead < 0, NEUTRAL, 0.5))
    moves = fixation / (len(payoffs) - 1)
    np.fill_diagonal(moves, 0.0)
    np.fill_diagonal(moves, 1.0 - moves.sum(axis=1))
    equations = np.vstack([moves.T - np.eye(len(moves)), np.ones(len(moves))])
    shares: Floats = np.linalg.lstsq(equations, np.eye(len(moves) + 1)[-1], rcond=None)[0]
    positive = np.clip(shares, 0.0, None)
    return np.asarray(positive / positive.sum())
