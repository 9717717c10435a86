"""Correlation of players' rewards turn by turn, with intervals over games."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from srl_agents.evaluation.interactions.graph import Edge, Floats, Measured, Pair, tested_edges

Rewards = Mapping[str, Mapping[int, float]]
"""Agent -> turn -> its reward, of one game."""


def reward_correlations(
    games: Sequence[Rewards], players: Sequence[Mapping[str, str]], seed: int
) -> tuple[Edge, ...]:
    """Pearson's correlation of the two players' rewards over all turns that both had.

    `players`: agent -> who played it, game by game. Rewards are taken from the agent's mean over
    all games, so that places that pay differently do not look like going together. Pairs of which
    one always earned the same have none.
    """
    earned: dict[str, list[float]] = {}
    for game in games:
        for agent, own in game.items():
            earned.setdefault(agent, []).extend(own.values())
    means = {agent: sum(own) / len(own) for agent, own in earned.items() if own}
    sums: dict[Pair, dict[int, Floats]] = {}
    for number, (game, who) in enumerate(zip(games, players, strict=True)):
        agents = list(game)
        for place, one in enumerate(agents):
            for other in agents[place + 1 :]:
                first, second = sorted((one, other), key=lambda agent: who[agent])
                both = [
                    (game[first][turn] - means[first], game[second][turn] - means[second])
                    for turn in game[first].keys() & game[second].keys()
                ]
                summed = sums.setdefault((who[first], who[second]), {})
                summed[number] = summed.get(number, np.zeros(6)) + _moments(both)
    measured = {}
    for pair, by_game in sums.items():
        moments = np.stack(list(by_game.values()))
        value = float(_correlation(moments.sum(axis=0)))
        if math.isfinite(value):
            measured[pair] = Measured(value, _error(moments), moments[:, -1])
    return tuple(
        replace(edge, interval=edge.interval and tuple(np.clip(edge.interval, -1.0, 1.0).tolist()))
        for edge in tested_edges(measured, seed)
    )


def _moments(both: Sequence[tuple[float, float]]) -> Floats:
    """Sums of 1, x, y, x squared, y squared and x times y."""
    xy = np.array(both, dtype=np.float64).reshape(-1, 2)
    x, y = xy.T
    return np.array([len(x), x.sum(), y.sum(), x @ x, y @ y, x @ y])


def _correlation(moments: Floats) -> Floats:
    """Of sums along the last axis; NaN where one of the two did not vary."""
    n, x, y, xx, yy, xy = np.moveaxis(moments, -1, 0)
    spread_x, spread_y = n * xx - x * x, n * yy - y * y
    flat = (spread_x <= _ROUNDING * n * xx) | (spread_y <= _ROUNDING * n * yy)
    with np.errstate(invalid="ignore", divide="ignore"):
        found: Floats = (n * xy - x * y) / np.sqrt(spread_x) / np.sqrt(spread_y)
    return np.clip(np.where(flat, np.nan, found), -1.0, 1.0)


_ROUNDING = 1e-12
"""Share of the sum of squares that is no spread."""


def _error(moments: Floats) -> float:
    """Return the jackknife standard error over games; infinite where a game left out decides."""
    if len(moments) < 2:
        return math.nan
    without = _correlation(moments.sum(axis=0) - moments)
    games = len(moments)
    error = math.sqrt((games - 1) / games * np.square(without - without.mean()).sum())
    return error if math.isfinite(error) else math.inf
