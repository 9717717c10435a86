"""Rankings of players: OpenSkill ratings of matches, and α-Rank of payoff matrices."""

from __future__ import annotations

from collections.abc import Sequence
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from srl_agents import seeding
from srl_agents.evaluation.nash_averaging import Floats, margins, nash_average, square
from srl_envs.loading import needed_by
from srl_extensions.judging.cross_play import PairGame

SPREAD = 1.96
"""Number of standard deviations from the mean to each end of a 95 % interval."""
WINNERS, RETURNS = "winners", "returns with the same partners"
"""Quantities by which the players of a match are compared."""
NEUTRAL = 0.01
"""Probability that a worse mutant replaces the resident, in place of the limit 0 of strong
selection. A value above 0 makes every player reachable."""


def matches_of(games: Sequence[PairGame], two_sided: bool) -> tuple[str, list[dict[str, float]]]:
    """Return the matches of the games in one arena.

    If the games name winners, each game between two different players is a match. Otherwise a match
    compares the returns of all players that had the same place, partner and start. Failed games
    and self-play are excluded.

    Args:
        games: Games of `play_cross`.
        two_sided: True if the partner's agents are the arena's other place.

    Returns:
        The compared quantity (WINNERS or RETURNS), and for each match the score by player. The
        highest score wins, and equal scores are a draw.
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
        if two_sided:
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


def rate(
    players: Sequence[str], played: Sequence[tuple[bool, Sequence[PairGame]]], seed: int
) -> dict[str, Any]:
    """Rate the players with OpenSkill's Plackett-Luce model, whose ratings start at 25.

    Args:
        players: Names of the players.
        played: For each arena, whether the arena is two-sided, and its games.
        seed: Seed of the order in which the matches are rated.

    Returns:
        Plain data: the compared quantity "by", the number of "matches", and "ratings" in descending
        order, each with the player, `mu`, `sigma` and the 95 % interval.

    Raises:
        ImportError: If OpenSkill is not installed.
    """
    with needed_by("ratings of players"):
        from openskill.models import PlackettLuce
    found = [matches_of(games, two_sided) for two_sided, games in played]
    compared = {by for by, _ in found}
    matches = [match for _, own in found for match in own]
    seeding.generator(seed, "rating").shuffle(matches)
    model = PlackettLuce()
    ratings = {name: model.rating(name=name) for name in players}
    for match in matches:
        sides = [[ratings[name]] for name in match]
        after = model.rate(sides, scores=[float(score) for score in match.values()])
        ratings |= {name: own for name, [own] in zip(match, after, strict=True)}
    rated = [
        {
            "player": name,
            "mu": float(own.mu),
            "sigma": float(own.sigma),
            "interval": (own.mu - SPREAD * own.sigma, own.mu + SPREAD * own.sigma),
        }
        for name, own in ratings.items()
    ]
    return {
        "by": compared.pop() if len(compared) == 1 else f"{WINNERS}, elsewhere {RETURNS}",
        "matches": len(matches),
        "ratings": sorted(rated, key=lambda one: -one["mu"]),
    }


def rankings(payoffs_NN: Floats, players: Sequence[str]) -> dict[str, dict[str, float]]:
    """Return α-Rank share, Nash weight and Nash value by player, from a matrix of payoffs."""
    shares, (weights, values) = alpha_rank(payoffs_NN), nash_average(payoffs_NN)
    return {
        name: {"alpha_rank": float(share), "nash_weight": float(weight), "nash_value": float(value)}
        for name, share, weight, value in zip(players, shares, weights, values, strict=True)
    }


def alpha_rank(payoffs_NN: ArrayLike) -> Floats:
    """Compute the stationary distribution of α-Rank over players.

    The method has one population with local selection, in the limit of strong selection, which
    depends on the order of the payoffs only (Omidshafiei et al. 2019, "α-Rank: Multi-Agent
    Evaluation by Evolution").

    Args:
        payoffs_NN: Payoffs of the row's player against the column's player.

    Returns:
        Share of each player, shape (player,).

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
