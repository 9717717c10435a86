"""Payoff matrices of cross-play: means with intervals, and the self-play against cross-play gap."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from srl_agents import seeding
from srl_agents.evaluation.bootstrap import RESAMPLES, bootstrap_interval, percentile_interval
from srl_agents.evaluation.population.cross_play import Game

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Cell:
    """What the row's player earned with the column's."""

    row: str
    column: str
    mean: float | None
    """Raw return per agent and episode; None where every game failed."""
    interval: tuple[float, float] | None
    """95 %, by bootstrap over starts; None for fewer than two."""
    games: int
    """Those that came to their end. A game whose two sides are both places counts in two cells."""
    failed: int


@dataclass(frozen=True)
class Gap:
    """How much less a method earns with its other seeds than each seed with itself, that is in
    zero-shot coordination (Hu et al. 2020, "Other-Play")."""

    group: str
    players: tuple[str, ...]
    """The method's independent seeds."""
    self_play: float
    """Mean over seeds of what each earns with itself."""
    cross_play: float
    """Mean over ordered pairs of different seeds."""
    gap: float
    """self_play - cross_play."""
    interval: tuple[float, float] | None
    """95 %, by bootstrap over seeds and starts together; None for fewer than three seeds, of which
    most resamples hold one alone."""


def returns_by_start(games: Sequence[Game], players: Sequence[str], two_sided: bool) -> Floats:
    """[row, column, start]: what the row's player earned with the column's, per agent, over the
    places; NaN where all games of the start failed."""
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


def cells(
    games: Sequence[Game], players: Sequence[str], two_sided: bool, seed: int
) -> list[list[Cell]]:
    """Row by row, what everyone earned with everyone."""
    returns_RCE = returns_by_start(games, players, two_sided)
    ended = np.zeros(returns_RCE.shape[:2], dtype=int)
    failed = ended.copy()
    index = {name: number for number, name in enumerate(players)}
    for game in games:
        counted = ended if game.failure is None else failed
        first, second = index[game.first], index[game.second]
        counted[first, second] += 1
        if two_sided and first != second:
            counted[second, first] += 1
    table = []
    for r, row in enumerate(players):
        made = []
        for c, column in enumerate(players):
            known = returns_RCE[r, c][np.isfinite(returns_RCE[r, c])]
            made.append(
                Cell(
                    row,
                    column,
                    float(known.mean()) if len(known) else None,
                    bootstrap_interval(known.tolist(), seed),
                    int(ended[r, c]),
                    int(failed[r, c]),
                )
            )
        table.append(made)
    return table


def means(returns_RCE: Floats) -> Floats | None:
    """The matrix of mean returns; None where a pair has no game that came to its end."""
    if np.isnan(returns_RCE).all(axis=2).any():
        return None
    found: Floats = np.nanmean(returns_RCE, axis=2)
    return found


def gaps(
    returns_RCE: Floats, players: Sequence[str], groups: Mapping[str, str], seed: int
) -> list[Gap]:
    """The gap of every group (player -> group) that has two seeds or more and no pair without a
    game that came to its end."""
    found = []
    for group in dict.fromkeys(groups.values()):
        own = [number for number, name in enumerate(players) if groups.get(name) == group]
        if len(own) < 2:
            continue
        within_RCE = returns_RCE[np.ix_(own, own)]
        if means(within_RCE) is None:
            continue
        everyone: Indices = np.arange(len(own))
        starts: Indices = np.arange(within_RCE.shape[2])
        alone, mixed = _self_and_cross(within_RCE, everyone, starts)
        found.append(
            Gap(
                group,
                tuple(players[number] for number in own),
                alone,
                mixed,
                alone - mixed,
                _gap_interval(within_RCE, seed),
            )
        )
    return found


def _gap_interval(within_RCE: Floats, seed: int) -> tuple[float, float] | None:
    seeds, starts = within_RCE.shape[1:]
    if seeds < 3:
        return None
    rng = seeding.generator(seed, "bootstrap")
    drawn_gaps: list[float] = []
    while len(drawn_gaps) < RESAMPLES:
        drawn = np.asarray(rng.integers(seeds, size=(seeds,)))
        kept = np.asarray(rng.integers(starts, size=(starts,)))
        if len(np.unique(drawn)) < 2:  # nobody to meet
            continue
        alone, mixed = _self_and_cross(within_RCE, drawn, kept)
        drawn_gaps.append(alone - mixed)
    return percentile_interval(drawn_gaps)


def _self_and_cross(within_RCE: Floats, drawn: Indices, starts: Indices) -> tuple[float, float]:
    """Mean of self-play and of cross-play; a seed drawn twice is the same one, not another."""
    chosen_RCE = within_RCE[np.ix_(drawn, drawn, starts)]
    same = drawn[:, None] == drawn[None, :]
    own = np.eye(len(drawn), dtype=bool)
    return float(np.nanmean(chosen_RCE[own])), float(np.nanmean(chosen_RCE[~same]))
