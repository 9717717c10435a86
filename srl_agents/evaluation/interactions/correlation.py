"""Correlation of players' rewards turn by turn, with intervals over games."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from srl_agents import seeding
from srl_agents.evaluation.bootstrap import RESAMPLES, percentile_interval
from srl_agents.evaluation.interactions.graph import Edge, Pair

Rewards = Mapping[str, Mapping[int, float]]
"""Agent -> turn -> its reward, of one game."""
Floats = NDArray[np.float64]


def reward_correlations(
    games: Sequence[Rewards], players: Sequence[Mapping[str, str]], seed: int
) -> tuple[Edge, ...]:
    """Pearson's correlation of the two players' rewards over all turns that both had.

    `players`: agent -> who played it, game by game. Rewards are taken from the agent's mean over
    all games, so that places that pay differently do not look like going together. The interval
    is the percentile bootstrap's over games. Pairs of which one always earned the same have none.
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
    edges = []
    for pair, by_game in sorted(sums.items()):
        moments = np.stack(list(by_game.values()))
        value = float(_correlation(moments.sum(axis=0)))
        if math.isfinite(value):
            edges.append(Edge(*pair, value, _interval(moments, seed), len(by_game)))
    return tuple(edges)


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


def _interval(moments: Floats, seed: int) -> tuple[float, float] | None:
    if len(moments) < 2:
        return None
    rng = seeding.generator(seed, "bootstrap")
    drawn = rng.integers(len(moments), size=(RESAMPLES, len(moments)))
    resampled = _correlation(moments[drawn].sum(axis=1))
    return None if np.isnan(resampled).all() else percentile_interval(resampled)
