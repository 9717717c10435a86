"""Nash averaging of players (Balduzzi et al. 2018, "Re-evaluating Evaluation").

In the meta-game, each side chooses a player. The value of a player is its margin against the
maximum-entropy equilibrium of the meta-game. Values do not change if copies of players, or players
that lose to all others, are added.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]
COLDEST = 1e-9
"""Last temperature t, relative to the largest margin: no player then beats the average by more
than t log n."""
MAX_STEPS = 30
"""Maximum number of Newton steps per temperature."""
SLOWEST = 0.999
"""Largest factor between two consecutive temperatures."""
TOLERANCE = 1e-9
"""Relative difference below which two payoffs are equal."""


class NashAverage(NamedTuple):
    """Weights and values of players in the meta-game."""

    weights: Floats
    """Maximum-entropy Nash equilibrium, one probability per player."""
    values: Floats
    """Margins against the equilibrium: 0 in its support, at most 0 elsewhere, up to rounding."""


def nash_average(payoffs_NN: ArrayLike) -> NashAverage:
    """Compute the Nash average: the weights and values of the players.

    Args:
        payoffs_NN: Payoff of the row's player against the column's player. The margin of i over j
            is (payoffs[i, j] - payoffs[j, i]) / 2.

    Raises:
        ValueError: The matrix is not square, finite and of at least two players.
        ArithmeticError: No equilibrium was found to 1e-6 of the largest margin.
    """
    lead = margins(square(payoffs_NN)) / 2
    scale = float(np.abs(lead).max())
    if scale == 0:
        return NashAverage(np.full(len(lead), 1 / len(lead)), np.zeros(len(lead)))
    weights = _maximum_entropy(lead / scale)
    values = lead @ weights
    if values.max() > 1e-6 * scale:
        raise ArithmeticError(
            f"no equilibrium found: a player beats the average by {values.max():.2g} of {scale:.2g}"
        )
    return NashAverage(weights, values)


def margins(payoffs_NN: Floats) -> Floats:
    """Return payoffs[i, j] - payoffs[j, i] as an antisymmetric matrix.

    Differences of at most TOLERANCE times the largest absolute payoff are 0.
    """
    found = payoffs_NN - payoffs_NN.T
    level: Floats = np.where(np.abs(found) <= TOLERANCE * np.abs(payoffs_NN).max(), 0.0, found)
    return level


def square(matrix: ArrayLike) -> Floats:
    """Return payoffs as float64; ValueError unless square, finite and of two or more players."""
    found = np.asarray(matrix, dtype=np.float64)
    if found.ndim != 2 or len(found) != len(found.T) or len(found) < 2:
        raise ValueError(
            f"payoffs must be a square matrix of at least 2 players, got {found.shape}"
        )
    if not np.isfinite(found).all():
        raise ValueError("payoffs must be finite: every pair of players needs an episode")
    return found


def _maximum_entropy(lead: Floats) -> Floats:
    """Approximate maximum-entropy weights with lead @ weights <= 0 (McKelvey, Palfrey 1995)."""
    logs, temperature, factor = np.full(len(lead), -np.log(len(lead))), 2.0, 0.5
    while temperature > COLDEST and factor < SLOWEST:
        colder = max(COLDEST, temperature * factor)
        found = _logit_equilibrium(lead / colder, logs)
        if found is None:
            factor **= 0.5
        else:
            logs, temperature = found, colder
    weights = np.exp(logs)
    return np.asarray(weights / weights.sum())


def _logit_equilibrium(lead: Floats, logs: Floats) -> Floats | None:
    """Solve w = softmax(lead @ w) from log w = `logs`; return log w, or None if not converged."""
    count = len(lead)
    for _ in range(MAX_STEPS):
        weights = np.exp(logs)
        missed = logs - lead @ weights
        missed -= weights @ missed / weights.sum()
        system = np.block(
            [[np.eye(count) - lead * weights, np.ones((count, 1))], [weights, np.zeros(1)]]
        )
        step = np.linalg.solve(system, -np.append(missed, weights.sum() - 1))[:count]
        logs = logs + step / max(1.0, float(step.max()))
        if np.abs(step * np.exp(logs)).max() < 1e-9:
            return logs
    return None
