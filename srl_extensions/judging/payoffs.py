"""Results of a cross-play as plain data: payoff matrix, games and rankings.

Rankings are mean returns, games won, α-Rank and Nash averaging.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from srl_agents.evaluation.bootstrap import bootstrap_interval
from srl_agents.evaluation.nash_averaging import Floats, margins, nash_average, square
from srl_extensions.judging.cross_play import Arena, PairGame

SCHEMA_VERSION = 2
NEUTRAL = 0.01
"""Probability with which a worse mutant replaces the resident in alpha-rank. Its limit for
strong selection is 0; a value above 0 makes every player reachable."""


def results(
    arena: Arena, games: Sequence[PairGame], players: Sequence[str], seed: int
) -> dict[str, Any]:
    """Compute the results of all games of an arena; raise ArithmeticError as `nash_average`.

    Args:
        arena: Arena of the games.
        games: Games of `play_cross`.
        players: Names of the players, in the order of the matrix.
        seed: Seed of the bootstrap.

    Returns:
        Plain data: "name", "places", "two_sided", "players", "matrix" (result of `cells`),
        "rankings" (result of `rankings`; None if a pair has no complete game), and "games".
    """
    returns_RCE = returns_by_start(games, players, arena.two_sided)
    complete = not np.isnan(returns_RCE).all(axis=2).any()
    return {
        "name": arena.name,
        "places": [list(place) for place in arena.places],
        "two_sided": arena.two_sided,
        "players": list(players),
        "matrix": cells(returns_RCE, seed),
        "rankings": rankings(np.nanmean(returns_RCE, axis=2), players, games) if complete else None,
        "games": [asdict(game) for game in games],
    }


def returns_by_start(games: Sequence[PairGame], players: Sequence[str], two_sided: bool) -> Floats:
    """Return the mean return of the row's player with the column's player from each start.

    The means are over complete games, in an array of shape (row, column, start), NaN without any. A
    game of a two-sided arena counts for both orders of its players. `games` is not empty.
    """
    index = {name: number for number, name in enumerate(players)}
    size = len(players), len(players), 1 + max(game.start for game in games)
    sums, counts = np.zeros(size), np.zeros(size)
    for game in games:
        if game.first_return is None or game.second_return is None:
            continue
        first, second = index[game.first], index[game.second]
        sums[first, second, game.start] += game.first_return
        counts[first, second, game.start] += 1
        if two_sided:
            sums[second, first, game.start] += game.second_return
            counts[second, first, game.start] += 1
    returns_RCE: Floats = np.full(size, np.nan)
    np.divide(sums, counts, out=returns_RCE, where=counts > 0)
    return returns_RCE


def cells(returns_RCE: Floats, seed: int) -> list[list[dict[str, Any]]]:
    """Return the payoff matrix as plain data, from the array of `returns_by_start`.

    Each row is a list of cells. A cell has the "mean" over starts (None if all games failed) and
    its 95 % bootstrap "interval" over starts, (low, high), with this seed (None below two starts).
    """

    def cell(returns_E: Floats) -> dict[str, Any]:
        known = returns_E[np.isfinite(returns_E)]
        return {
            "mean": float(known.mean()) if len(known) else None,
            "interval": bootstrap_interval(known.tolist(), seed),
        }

    return [[cell(returns_E) for returns_E in row] for row in returns_RCE]


def rankings(
    payoffs_NN: Floats, players: Sequence[str], games: Sequence[PairGame]
) -> dict[str, dict[str, float | None]]:
    """Return player -> its rankings, from games and mean returns of the row's player.

    "mean_return" is the mean return with all other players, "won" the share of games won against
    them that name a winner (a draw is half a win; None without any). The others are based on the
    row's return minus the column's: "alpha_rank" and "nash_weight" are its probabilities, and
    "nash_value" is half its mean lead over players drawn by "nash_weight". Raise ValueError for
    returns that are not finite, and ArithmeticError as `nash_average`.
    """
    shares, (weights, values) = alpha_rank(payoffs_NN), nash_average(payoffs_NN)
    others = (payoffs_NN.sum(axis=1) - payoffs_NN.diagonal()) / (len(players) - 1)
    points: dict[str, list[float]] = {name: [] for name in players}
    for game in games:
        if game.winner is not None and game.first != game.second:
            first = {"first": 1.0, "second": 0.0, "draw": 0.5}[game.winner]
            points[game.first].append(first)
            points[game.second].append(1.0 - first)
    return {
        name: {
            "mean_return": float(others[place]),
            "won": float(np.mean(points[name])) if points[name] else None,
            "alpha_rank": float(shares[place]),
            "nash_weight": float(weights[place]),
            "nash_value": float(values[place]),
        }
        for place, name in enumerate(players)
    }


def alpha_rank(payoffs_NN: ArrayLike) -> Floats:
    """Return the share of each player in the stationary distribution of α-Rank, shape (player,).

    `payoffs_NN` are payoffs of the row's player against the column's. The method has one population
    with local selection, near the limit of strong selection: a worse mutant wins in 1 % of cases.
    Only the order of two payoffs counts (Omidshafiei et al. 2019). Raise ValueError if the matrix
    is not square, finite and of two or more players.
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
