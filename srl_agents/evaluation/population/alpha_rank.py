"""Alpha-rank: how long evolution dwells on each player of a population.

After Omidshafiei et al. 2019, "α-Rank: Multi-Agent Evaluation by Evolution".
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

POPULATION = 50
"""Players in the finite population that mutants spread in."""
NEUTRAL = 0.01
"""In the limit of strong selection: how seldom a worse mutant takes over, as a share of how often
a better one does (so that the chain reaches every player)."""
SAME = 1e-9

Floats = NDArray[np.float64]


def alpha_rank(
    payoffs_NN: ArrayLike, alpha: float | None = None, population: int = POPULATION
) -> Floats:
    """[player]: the share of time in the long run of a population in which everybody plays it.

    `payoffs_NN[i, j]` is what i earns with j. `alpha` is the strength of selection, in units of one
    over payoffs; None takes the limit of strong selection, in which only the payoffs' order counts.
    The one-population model with the local selection of the paper's eq. 7.

    Raises ValueError for a matrix that is not square, finite and of two players or more, and for
    an alpha that is not above 0.
    """
    payoffs = square(payoffs_NN)
    if alpha is not None and not alpha > 0:
        raise ValueError(f"alpha is {alpha}: give a number above 0, or None for its limit")
    lead = margins(payoffs).T  # [resident, mutant]
    if alpha is None:
        fixation = np.where(lead > 0, 1.0 - NEUTRAL, np.where(lead < 0, NEUTRAL, 0.5))
    else:
        fixation = _fixation(alpha * lead, population)
    moves = fixation / (len(payoffs) - 1)
    np.fill_diagonal(moves, 0.0)
    np.fill_diagonal(moves, 1.0 - moves.sum(axis=1))
    return _stationary(moves)


def _fixation(advantage: Floats, population: int) -> Floats:
    """The chance that one mutant takes over: (1 - e^-a) / (1 - e^-ma), and 1/m for a = 0."""
    a = np.where(advantage == 0, 1.0, np.abs(advantage))
    better = np.expm1(-a) / np.expm1(-population * a)
    # For -a, both parts divided by e^ma, so that nothing overflows.
    worse = better * np.exp(-(population - 1) * a)
    found: Floats = np.where(
        advantage == 0, 1.0 / population, np.where(advantage > 0, better, worse)
    )
    return found


def _stationary(moves: Floats) -> Floats:
    """The distribution that the chain leaves as it is."""
    players = len(moves)
    equations = np.vstack([moves.T - np.eye(players), np.ones(players)])
    shares: Floats = np.linalg.lstsq(equations, np.eye(players + 1)[-1], rcond=None)[0]
    positive: Floats = np.clip(shares, 0.0, None)
    positive /= positive.sum()
    return positive


def margins(payoffs_NN: Floats) -> Floats:
    """[i, j]: by how much i earns more with j than j with i; sums that differ in their last digits
    alone are equal."""
    found = payoffs_NN - payoffs_NN.T
    level: Floats = np.where(np.abs(found) <= SAME * np.abs(payoffs_NN).max(), 0.0, found)
    return level


def square(matrix: ArrayLike) -> Floats:
    """The matrix as numbers; raises ValueError where it is no payoff matrix of two or more."""
    found = np.asarray(matrix, dtype=np.float64)
    if found.ndim != 2 or len(found) != len(found.T) or len(found) < 2:
        raise ValueError(f"payoffs must be square, of two players or more; got {found.shape}")
    if not np.isfinite(found).all():
        raise ValueError("payoffs must be finite: a pair without a game has no place in a ranking")
    return found
