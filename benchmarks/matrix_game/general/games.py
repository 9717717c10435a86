"""Games of the general suite: all strict ordinal 2x2 games, and zero-sum games."""

from __future__ import annotations

from itertools import permutations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from srl_agents.baselines.agreement import product_of_gains
from srl_agents.baselines.maximin import maximin

SPLIT_SEED = 2007  # of the halves
RANDOM_GAMES = 6  # of either size
BIASED_ROCK_PAPER_SCISSORS = ((0.5, 0.0, 1.0), (1.0, 0.5, 0.25), (0.0, 0.75, 0.5))
"""Scissors cut paper for only half of what the others win: the value is 1/2, uneven mixing."""
MIXTURES = 240  # shares of two joint actions tried for the fair outcome


class Games(NamedTuple):
    """G games of K actions; payoffs within [0, 1], indexed (row's action, column's)."""

    row_GKK: NDArray[np.float64]
    column_GKK: NDArray[np.float64]
    held_G: NDArray[np.bool_]
    """Whether a game is of the held half: no constant was chosen in sight of it."""
    zero_sum_G: NDArray[np.bool_]

    def __len__(self) -> int:
        return len(self.row_GKK)

    def picked(self, which: NDArray[np.bool_] | NDArray[np.int64]) -> Games:
        """Those of a mask, or of indices, which may repeat."""
        payoffs = self.row_GKK[which], self.column_GKK[which]
        return Games(*payoffs, self.held_G[which], self.zero_sum_G[which])


def two_action_games() -> Games:
    """The 144 strict ordinal games, matching pennies and random zero-sum games.

    Each game is there in both seats, so what a method earns as the row player covers both. The two
    seats of a game, and games that differ in the names of players and actions only, are of the
    same half; 78 such classes of ordinal games there are (Rapoport and Guyer 1966).
    """
    classes: dict[object, list[tuple[NDArray[np.float64], NDArray[np.float64]]]] = {}
    for row, column in _ordinal():
        same = min(_canonical(row, column), _canonical(column.T, row.T))
        classes.setdefault(same, []).append((row, column))
    ordinal = len(classes)
    generator = np.random.default_rng(SPLIT_SEED)
    pennies = [np.eye(2), *generator.random((RANDOM_GAMES, 2, 2))]
    for number, row in enumerate(pennies):
        classes[number] = [(row, 1.0 - row), (1.0 - row.T, row.T)]
    return _split(list(classes.values()), ordinal, generator)


def three_action_games() -> Games:
    """Biased rock-paper-scissors and random zero-sum games of three actions."""
    generator = np.random.default_rng(SPLIT_SEED + 1)
    rows = [np.array(BIASED_ROCK_PAPER_SCISSORS), *generator.random((RANDOM_GAMES - 1, 3, 3))]
    classes = [[(row, 1.0 - row), (1.0 - row.T, row.T)] for row in rows]
    return _split(classes, 0, generator)


def fair_values(games: Games) -> NDArray[np.float64]:
    """Both players' payoffs in the best fair outcome: (G, 2).

    The Nash bargaining solution over all mixtures of two joint actions (see
    `srl_agents.baselines.agreement`).
    """
    fair_G2 = np.empty((len(games), 2))
    for g, (row_KK, column_KK) in enumerate(zip(games.row_GKK, games.column_GKK, strict=True)):
        cell_J2 = np.stack([row_KK.ravel(), column_KK.ravel()], axis=1)
        share = np.linspace(0.0, 1.0, MIXTURES + 1)[:, None, None, None]
        mixed = share * cell_J2[:, None] + (1.0 - share) * cell_J2[None]
        value_A2 = mixed.reshape(-1, 2)
        _, sure_2 = maximin(np.stack([row_KK, column_KK.T]))
        gain_A = product_of_gains(value_A2, sure_2, row_KK, column_KK)
        fair_G2[g] = value_A2[gain_A.argmax()]
    return fair_G2


def _ordinal() -> list[tuple[NDArray[np.float64], NDArray[np.float64]]]:
    """Every pair of rankings of the four joint actions, one for each way to name the actions."""
    rankings = [np.array(order).reshape(2, 2) / 4 for order in permutations((1, 2, 3, 4))]
    found: dict[tuple[float, ...], tuple[NDArray[np.float64], NDArray[np.float64]]] = {}
    for row in rankings:
        for column in rankings:
            found.setdefault(_canonical(row, column), (row, column))
    return list(found.values())


def _canonical(row: NDArray[np.float64], column: NDArray[np.float64]) -> tuple[float, ...]:
    """The same for games that differ in the names of actions only."""
    return min(
        tuple(np.concatenate([row[::up, ::left].ravel(), column[::up, ::left].ravel()]).tolist())
        for up in (1, -1)
        for left in (1, -1)
    )


def _split(
    classes: list[list[tuple[NDArray[np.float64], NDArray[np.float64]]]],
    ordinal: int,
    generator: np.random.Generator,
) -> Games:
    """The games of all classes, half of the ordinal and half of the other classes held."""
    held = set(generator.permutation(ordinal)[: ordinal // 2].tolist())
    others = ordinal + generator.permutation(len(classes) - ordinal)
    held |= set(others[: len(others) // 2].tolist())
    games = [
        (row, column, index in held, index >= ordinal)
        for index, members in enumerate(classes)
        for row, column in members
    ]
    rows, columns, kept, zero_sum = zip(*games, strict=True)
    return Games(np.array(rows), np.array(columns), np.array(kept), np.array(zero_sum))
