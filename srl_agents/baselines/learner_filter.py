"""Filter of a learning partner's logit, in games of two actions.

The logit of a policy gradient moves per episode by rate * p(1-p) * push. The push is interpolated
between its values for an opponent that always plays 0 and always plays 1. As the partner's payoffs
are unknown, each end may be +1 or -1 (the partner follows us, evades us, or has a dominant action),
at one of eight rates. Each combination is a filter on a grid of logits.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from srl_agents.arrays import Floats

RATES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # logits per episode at p(1-p) = 1
DIRECTIONS = ((-1, 1), (1, -1), (1, 1), (-1, -1))  # push if we always play 0, and always play 1
FOLLOWS = 0.5  # prior of the first direction; the others share the rest equally
FILTERS = len(DIRECTIONS) * len(RATES)
LOGITS = np.linspace(-6.0, 6.0, 49)
START = 1.0  # standard deviation of a learner's logit before its first episode
NOISE = 0.1  # standard deviation of a learner's step, divided by rate * sqrt(p(1-p))
PRIOR = [
    (FOLLOWS if direction == 0 else (1.0 - FOLLOWS) / (len(DIRECTIONS) - 1)) / len(RATES)
    for direction in range(len(DIRECTIONS))
    for _ in RATES
]
PUSHES = np.linspace(-1.0, 1.0, 5)
LOOKAHEAD = 128  # number of future episodes over which a lead is evaluated


class LearnerFilter:
    """Beliefs about N learning partners: distributions of the logit of their action 1.

    There is one distribution on the grid LOGITS per filter. A filter assumes one entry of
    DIRECTIONS and one of RATES; its index is direction * len(RATES) + rate.
    """

    def __init__(self, runs: int) -> None:
        belief = np.exp(-0.5 * (LOGITS / START) ** 2)
        shape = (len(DIRECTIONS), len(RATES), runs, 1)
        self._logit_DRNG = np.tile(belief / belief.sum(), shape)

    def add(self, played_N: Floats, counts_NK: Floats) -> Floats:
        """Return an episode's log-likelihood by filter, (N, FILTERS), and then update the beliefs.

        `played_N` is the agent's fraction of rounds with action 1, `counts_NK` the partner's number
        of rounds with action 0 and 1, (N, 2).
        """
        chance_G = _chance(LOGITS)
        log_likelihood_NG = counts_NK[:, 1:] * np.log(chance_G) + counts_NK[:, :1] * np.log(
            1.0 - chance_G
        )
        best_N = log_likelihood_NG.max(axis=1)
        updated = self._logit_DRNG * np.exp(log_likelihood_NG - best_N[:, None])
        mass_DRN = np.maximum(updated.sum(axis=3), 1e-300)
        updated /= mass_DRN[..., None]
        moves = _moves()
        for direction, (if_0, if_1) in enumerate(DIRECTIONS):
            push_N = if_0 + played_N * (if_1 - if_0)
            level_N = np.rint((push_N + 1.0) / 2.0 * (len(PUSHES) - 1)).astype(int)
            for level in np.unique(level_N):
                rows = level_N == level
                self._logit_DRNG[direction][:, rows] = updated[direction][:, rows] @ moves[level]
        evidence = np.log(mass_DRN) + best_N
        return np.asarray(evidence.reshape(FILTERS, -1).T)

    def led(self, weight_NF: Floats) -> Floats:
        """Return the partner's expected rate of action 1 against a constant agent: (N, 2).

        The columns are the agent's action, 0 or 1. The rate is the mean over the next LOOKAHEAD
        episodes and over the filters, with the weights `weight_NF`, which sum to 1.
        """
        weight_NDR = weight_NF.reshape(-1, len(DIRECTIONS), len(RATES))
        led_N2 = np.zeros((len(weight_NF), 2))
        for direction, pushes in enumerate(DIRECTIONS):
            for own, push in enumerate(pushes):
                future_RG = _futures()[int(push > 0)]
                share_RN = np.einsum("rng,rg->rn", self._logit_DRNG[direction], future_RG)
                led_N2[:, own] += (weight_NDR[:, direction].T * share_RN).sum(axis=0)
        return led_N2


def _chance(logit: Floats) -> Floats:
    return np.asarray(1.0 / (1.0 + np.exp(-logit)))


@cache
def _moves() -> Floats:
    """Return a logit's transition probabilities [push, rate, from, to] on PUSHES, RATES, LOGITS."""
    chance_G = _chance(LOGITS)
    slope_G = chance_G * (1.0 - chance_G)
    rate_R1 = np.array(RATES)[:, None]
    noise_RG = NOISE * rate_R1 * np.sqrt(slope_G)
    step = LOGITS[1] - LOGITS[0]
    # The noise is represented by nine equally likely quantiles of a standard normal.
    quantiles = (-1.59, -0.97, -0.59, -0.28, 0.0, 0.28, 0.59, 0.97, 1.59)
    moves = np.zeros((len(PUSHES), len(RATES), LOGITS.size, LOGITS.size))
    for index, push in enumerate(PUSHES):
        mean_RG = LOGITS + rate_R1 * slope_G * push
        for quantile in quantiles:
            place = np.clip(mean_RG + noise_RG * quantile, LOGITS[0], LOGITS[-1])
            distance = np.abs(place[:, :, None] - LOGITS) / step
            moves[index] += np.maximum(0.0, 1.0 - distance) / len(quantiles)
    return moves


@cache
def _futures() -> Floats:
    """Return mean rates of action 1 in LOOKAHEAD episodes: [push -1 or 1, RATES, LOGITS]."""
    moves = _moves()[[0, -1]]
    share = np.zeros((2, len(RATES), LOGITS.size))
    chance = np.broadcast_to(_chance(LOGITS), share.shape)
    for _ in range(LOOKAHEAD):
        share += chance / LOOKAHEAD
        chance = np.einsum("lrgh,lrh->lrg", moves, chance)
    return share
