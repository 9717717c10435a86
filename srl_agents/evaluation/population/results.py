"""Results of a cross-play: matrix, gap, ratings and rankings of one arena, as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from typing import Any

import numpy as np

from srl_agents.evaluation.population.alpha_rank import alpha_rank
from srl_agents.evaluation.population.arena import Arena
from srl_agents.evaluation.population.cross_play import Game
from srl_agents.evaluation.population.nash_averaging import nash_average
from srl_agents.evaluation.population.payoffs import Floats, cells, gaps, means, returns_by_start
from srl_agents.evaluation.population.ratings import Rated, matches_of, rate


def results(
    arena: Arena, games: Sequence[Game], groups: Mapping[str, str], seed: int
) -> dict[str, Any]:
    """What the games of all players (those of `groups`, player -> group) came to.

    "matrix" holds the rows' raw returns; "normalised" each player's self-play between uniform play
    (0) and the optimum (1), where the environment knows both. Rankings are None where a pair has
    no game that came to its end.
    """
    players = list(groups)
    returns_RCE = returns_by_start(games, players, arena.two_sided)
    matrix = means(returns_RCE)
    return {
        "name": arena.name,
        "places": [list(place) for place in arena.places],
        "two_sided": arena.two_sided,
        "players": players,
        "matrix": [
            [asdict(one) for one in row] for row in cells(games, players, arena.two_sided, seed)
        ],
        "gaps": [asdict(gap) for gap in gaps(returns_RCE, players, groups, seed)],
        "ratings": asdict(rated(games, players, arena.two_sided, seed)),
        "rankings": None if matrix is None else rankings(matrix, players),
        "normalised": normalised(arena, games, players),
        "failed": [
            {"first": one.first, "second": one.second, "start": one.start, "failure": one.failure}
            for one in games
            if one.failure is not None
        ],
        "games": [asdict(game) for game in games],
    }


def rated(games: Sequence[Game], players: Sequence[str], two_sided: bool, seed: int) -> Rated:
    """The players' ratings by these games."""
    by, matches = matches_of(games, two_sided)
    return rate(players, matches, by, seed)


def rankings(matrix: Floats, players: Sequence[str]) -> dict[str, dict[str, float]]:
    """Player -> its share by alpha-rank, and its weight and value by Nash averaging, which hold in
    intransitive games too."""
    shares, average = alpha_rank(matrix), nash_average(matrix)
    return {
        name: {"alpha_rank": float(share), "nash_weight": float(weight), "nash_value": float(value)}
        for name, share, weight, value in zip(
            players, shares, average.weights, average.values, strict=True
        )
    }


def normalised(
    arena: Arena, games: Sequence[Game], players: Sequence[str]
) -> dict[str, float] | None:
    """Player -> (its mean reward per agent and turn with itself - uniform play's) / (the optimum -
    uniform play's); None where the environment does not know both."""
    with closing(arena.make()) as env:
        known: Mapping[str, float] = getattr(env.unwrapped, "baselines", dict)()
    if not {"uniform", "optimum"} <= known.keys() or known["optimum"] == known["uniform"]:
        return None
    total, found = len(arena.agents), {}
    for name in players:
        per_turn = [
            (size * game.first_return + (total - size) * game.second_return) / total / game.turns
            for game in games
            if game.first == game.second == name
            and game.first_return is not None
            and game.second_return is not None
            and (size := len(arena.places[game.place]))
            and game.turns
        ]
        if per_turn:
            earned = float(np.mean(per_turn))
            found[name] = (earned - known["uniform"]) / (known["optimum"] - known["uniform"])
    return found
