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
COLDEST = 1e-9
"""The last temperature, in greatest margins: at t nobody beats the average by more than t log n."""
MOST_STEPS = 30
"""Newton's, from one temperature to the next."""
SLOWEST = 0.999
"""Of the falls of the temperature: a slower one is not tried."""


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

    They are the limit of the logit equilibria w = softmax(lead @ w / t) as the temperature t falls
    (McKelvey and Palfrey 1995). As lead is antisymmetric, there is one for each t, with at least as
    much entropy as any equilibrium, and the equations of Newton's steps always have a solution.
    """
    logs, temperature, fall = np.full(len(lead), -np.log(len(lead))), 2.0, 0.5
    while temperature > COLDEST and fall < SLOWEST:
        colder = max(COLDEST, temperature * fall)
        found = _logit_equilibrium(lead / colder, logs)
        if found is None:
            fall **= 0.5
        else:
            logs, temperature = found, colder
    weights = np.exp(logs)
    return np.asarray(weights / weights.sum())


def _logit_equilibrium(lead: Floats, logs: Floats) -> Floats | None:
    """The logarithms of w = softmax(lead @ w), by Newton's steps from `logs`; None where these were
    too far away."""
    count = len(lead)
    for _ in range(MOST_STEPS):
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
