"""Results of a cross-play as plain data: payoff matrix, games and rankings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray

from srl_agents.evaluation.bootstrap import bootstrap_interval
from srl_extensions.judging.cross_play import Arena, PairGame
from srl_extensions.judging.rankings import rankings

SCHEMA_VERSION = 2

Floats = NDArray[np.float64]


def results(
    arena: Arena, games: Sequence[PairGame], players: Sequence[str], seed: int
) -> dict[str, Any]:
    """Compute the results of all games of an arena.

    Args:
        arena: Arena of the games.
        games: Games of `play_cross`.
        players: Names of the players, in the order of the matrix.
        seed: Seed of the bootstrap.

    Returns:
        Plain data: "matrix" as in `cells`, "rankings" as in `rankings` (None if a pair has no
        complete game), and all games.
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
    """Return the mean return of the row's player with the column's player.

    The means are over places, in an array of shape (row, column, start), with NaN if all games
    failed. A game of a two-sided arena counts for both orders of its players.
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
    """Return the payoff matrix, a list of rows of cells.

    A cell has the mean return of the row's player per agent and episode (None if all games failed),
    and its 95 % interval by bootstrap over starts.
    """

    def cell(returns_E: Floats) -> dict[str, Any]:
        known = returns_E[np.isfinite(returns_E)]
        return {
            "mean": float(known.mean()) if len(known) else None,
            "interval": bootstrap_interval(known.tolist(), seed),
        }

    return [[cell(returns_E) for returns_E in row] for row in returns_RCE]
