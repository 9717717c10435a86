"""Nash averaging: what each player wins against the population's maximum-entropy equilibrium.

After Balduzzi et al. 2018, "Re-evaluating Evaluation". The meta-game is to choose a player: copies
of one, and those who lose to everybody, change no one's value.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from srl_agents.evaluation.population.alpha_rank import margins, square

Floats = NDArray[np.float64]
RIDGE = 1e-13
"""Weight of the multipliers' squares, without which they may grow for ever."""
MOST_STEPS = 500


class NashAverage(NamedTuple):
    """The values of players in the meta-game."""

    weights: Floats
    """[player]: the maximum-entropy Nash equilibrium."""
    values: Floats
    """[player]: its margin against that equilibrium; 0 for those in it, below for others."""


def nash_average(payoffs_NN: ArrayLike) -> NashAverage:
    """The Nash average, where i beats j by payoffs[i, j] - payoffs[j, i] over two.

    For a zero-sum meta-game, whose matrix is antisymmetric, that is the matrix itself. Raises
    ValueError for a matrix that is not square, finite and of two players or more, and
    ArithmeticError where the equilibrium is not found to 1e-6 of the greatest margin.
    """
    payoffs = square(payoffs_NN)
    lead = margins(payoffs) / 2
    scale = float(np.abs(lead).max())
    if scale == 0:
        return NashAverage(np.full(len(lead), 1 / len(lead)), np.zeros(len(lead)))
    weights = _most_even(lead / scale)
    values = lead @ weights
    if values.max() > 1e-6 * scale:
        raise ArithmeticError(
            f"no equilibrium found: a player beats the average by {values.max():.2g} of {scale:.2g}"
        )
    return NashAverage(weights, values)


def _most_even(lead: Floats) -> Floats:
    """The weights of most entropy that no player beats: lead @ weights <= 0.

    By the dual: weights are softmax(lead @ m) at the m >= 0 where log sum exp(lead @ m) is
    least (lead is antisymmetric), found by projected Newton steps (Bertsekas 1982).
    """
    multipliers = np.zeros(len(lead))
    for _ in range(MOST_STEPS):
        weights = _softmax(lead @ multipliers)
        slope = lead.T @ weights + RIDGE * multipliers
        free = (multipliers > 0) | (slope < 0)
        if np.abs(slope[free]).max(initial=0.0) < 1e-14:
            break
        curve = lead.T @ (np.diag(weights) - np.outer(weights, weights)) @ lead
        curve += RIDGE * np.eye(len(lead))
        step = np.zeros(len(lead))
        step[free] = np.linalg.lstsq(curve[np.ix_(free, free)], -slope[free], rcond=None)[0]
        moved = _descended(lead, multipliers, step, slope)
        if moved is None:
            break
        multipliers = moved
    return _softmax(lead @ multipliers)


def _descended(lead: Floats, multipliers: Floats, step: Floats, slope: Floats) -> Floats | None:
    """The multipliers after as much of the step as lowers the dual; None where none does."""
    here, size = _dual(lead, multipliers), 1.0
    for _ in range(60):
        there = np.maximum(0.0, multipliers + size * step)
        if _dual(lead, there) < here + 1e-4 * min(0.0, float(slope @ (there - multipliers))):
            return there
        size /= 2
    return None


def _dual(lead: Floats, multipliers: Floats) -> float:
    scores = lead @ multipliers
    top = scores.max()
    return float(top + np.log(np.exp(scores - top).sum()) + RIDGE / 2 * (multipliers @ multipliers))


def _softmax(scores: Floats) -> Floats:
    shares: Floats = np.exp(scores - scores.max())
    shares /= shares.sum()
    return shares
