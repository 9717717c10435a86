"""Rankings of players: mean returns, games won, α-Rank and Nash averaging."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from srl_agents.evaluation.nash_averaging import Floats, margins, nash_average, square
from srl_extensions.judging.cross_play import PairGame

NEUTRAL = 0.01
"""Probability that a worse mutant replaces the resident. Its limit for strong selection is 0; a
value above 0 makes every player reachable."""


def rankings(
    payoffs_NN: Floats, players: Sequence[str], games: Sequence[PairGame]
) -> dict[str, dict[str, float | None]]:
    """Return the rankings of each player.

    Args:
        payoffs_NN: Mean return of the row's player with the column's player.
        players: Names of the players.
        games: Games of all pairs.

    Returns:
        Player to its mean return with all other players, its share of games won against them (None
        if the games name no winner; a draw is half a win), its share by α-Rank, and its weight and
        value by Nash averaging. α-Rank and Nash averaging use the row's return minus the column's.
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
