"""Opponent model: the opponent's type and next action, inferred from its observed actions.

Type-based reasoning in the manner of Albrecht and Ramamoorthy (2013, "A game-theoretic model and
best-response learning method for ad hoc coordination"): a few kinds of player are thought possible,
each predicts the next actions, and each is believed as far as it predicted well.

- stationary: cooperates with one unknown chance. Exact posterior from all rounds.
- changing: the same, with counts that fade from episode to episode.
- reactive: cooperates with a chance that depends on the round before (tit-for-tat is one of them).
  Fading counts too.
- learner: moves its chance from episode to episode towards what is played against it, at an
  unknown rate (a policy gradient does: its logit moves by rate * p(1-p) * push, with push in
  [-1, 1] from "always compete" to "always cooperate" against it). A filter on a grid of logits
  for each of eight rates.
"""

from __future__ import annotations

from collections.abc import Collection
from functools import cache
from math import lgamma

import numpy as np
from numpy.typing import NDArray

from srl_agents.scripted.memory_one import SITUATIONS, situations

RATES = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)  # logits per episode at p(1-p) = 1
LOGITS = np.linspace(-6.0, 6.0, 49)
LEARNERS_START = 1.0  # standard deviation of a learner's logit before its first episode
LEARNERS_NOISE = 0.1  # a learner's step has standard deviation rate * sqrt(p(1-p)) * this
PUSHES = np.linspace(-1.0, 1.0, 5)
LOOKAHEAD = 128  # episodes over which leading a learner may pay itself back
PRIOR_COUNT = 0.5  # Jeffreys' prior for a chance

_lgamma = np.vectorize(lgamma, otypes=[float])


class PartnerModel:
    """Beliefs about the partner's type and next actions, for N runs at once.

    `fading` in (0, 1] is what an episode keeps of the weight of those before it, for the
    reactive type's counts and for how well each type predicted. Types not among `types` are
    thought impossible; at least one is.
    """

    def __init__(self, runs: int, fading: float, types: Collection[str]) -> None:
        self._fading = fading
        self._kept_NC2 = np.zeros((runs, SITUATIONS, 2))  # reactive: fading counts
        self._all_N2 = np.zeros((runs, 2))  # stationary: all counts
        self._recent_N2 = np.zeros((runs, 2))  # changing: fading counts
        belief = np.exp(-0.5 * (LOGITS / LEARNERS_START) ** 2)
        self._logit_RNG = np.tile(belief / belief.sum(), (len(RATES), runs, 1))
        kinds = ["stationary", "changing", "reactive", *["learner"] * len(RATES)]
        shares = [1.0 / kinds.count(kind) if kind in types else 0.0 for kind in kinds]
        with np.errstate(divide="ignore"):
            self._log_prior = np.log(shares)
        self._log_evidence = np.zeros((runs, len(kinds)))

    def add(self, own_NT: NDArray[np.int8], other_NT: NDArray[np.int8]) -> None:
        """Take in one episode."""
        before_NT = situations(own_NT, other_NT)
        counts_NC2 = np.zeros_like(self._kept_NC2)
        for situation in range(SITUATIONS):
            here_NT = before_NT == situation
            counts_NC2[:, situation, 1] = (here_NT & (other_NT == 1)).sum(axis=1)
            counts_NC2[:, situation, 0] = (here_NT & (other_NT == 0)).sum(axis=1)
        counts_N2 = counts_NC2.sum(axis=1)

        fit = np.empty_like(self._log_evidence)
        fit[:, 0] = _log_chance(counts_N2, self._all_N2)
        fit[:, 1] = _log_chance(counts_N2, self._recent_N2)
        fit[:, 2] = _log_chance(counts_NC2, self._kept_NC2).sum(axis=1)
        chance_G = _chance(LOGITS)
        log_likelihood_NG = counts_N2[:, 1:] * np.log(chance_G) + counts_N2[:, :1] * np.log(
            1.0 - chance_G
        )
        best_N = log_likelihood_NG.max(axis=1)
        updated = self._logit_RNG * np.exp(log_likelihood_NG - best_N[:, None])
        mass_RN = updated.sum(axis=2)
        fit[:, 3:] = (np.log(mass_RN) + best_N).T
        self._log_evidence = self._fading * self._log_evidence + fit

        # What the learner has learnt from this episode moves it before the next.
        push_N = np.rint((own_NT.mean(axis=1)) * (len(PUSHES) - 1)).astype(int)
        updated /= mass_RN[:, :, None]
        moves = _moves()
        for push in np.unique(push_N):
            rows = push_N == push
            self._logit_RNG[:, rows] = updated[:, rows] @ moves[push]
        self._all_N2 += counts_N2
        self._recent_N2 = self._fading * self._recent_N2 + counts_N2
        self._kept_NC2 = self._fading * self._kept_NC2 + counts_NC2

    def learner(self) -> NDArray[np.float64]:
        """How likely the partner is a learner: (N,)."""
        return np.asarray(self._weights()[:, 3:].sum(axis=1))

    def replies(self) -> NDArray[np.float64]:
        """Chance that it cooperates in each situation, if it is no learner: (N, 5)."""
        weight_N3 = self._weights()[:, :3]
        total_N1 = weight_N3.sum(axis=1, keepdims=True)
        whole = np.full_like(weight_N3, 1.0 / 3.0)
        share_N3 = np.divide(weight_N3, total_N1, out=whole, where=total_N1 > 0)
        same_N = share_N3[:, 0] * _mean(self._all_N2) + share_N3[:, 1] * _mean(self._recent_N2)
        return np.asarray(same_N[:, None] + share_N3[:, 2:] * _mean(self._kept_NC2))

    def led(self) -> NDArray[np.float64]:
        """Share of rounds in which it cooperates, if it is a learner and we always play 0, or 1.

        Mean over the next LOOKAHEAD episodes: (N, 2).
        """
        weight_RN = self._weights()[:, 3:].T
        weight_RN = weight_RN / np.maximum(weight_RN.sum(axis=0), 1e-300)
        logit_RNG = self._logit_RNG * weight_RN[:, :, None]
        return np.asarray(np.einsum("rng,lrg->nl", logit_RNG, _futures()))

    def _weights(self) -> NDArray[np.float64]:
        log_weight = self._log_prior + self._log_evidence
        weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def _chance(logit: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(1.0 / (1.0 + np.exp(-logit)))


def _mean(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    """Posterior mean of a chance; the last axis counts (no, yes)."""
    return np.asarray((counts[..., 1] + PRIOR_COUNT) / (counts.sum(axis=-1) + 2 * PRIOR_COUNT))


def _log_chance(new: NDArray[np.float64], old: NDArray[np.float64]) -> NDArray[np.float64]:
    """Log-probability of a sequence with these (no, yes) counts, after the old: beta-binomial."""
    return np.asarray(_log_beta(old + new + PRIOR_COUNT) - _log_beta(old + PRIOR_COUNT))


def _log_beta(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(_lgamma(counts).sum(axis=-1) - _lgamma(counts.sum(axis=-1)))


@cache
def _moves() -> NDArray[np.float64]:
    """How a learner's logit moves in an episode: (push, rate, logit before, logit after)."""
    chance_G = _chance(LOGITS)
    slope_G = chance_G * (1.0 - chance_G)
    rate_R1 = np.array(RATES)[:, None]
    noise_RG = LEARNERS_NOISE * rate_R1 * np.sqrt(slope_G)
    step = LOGITS[1] - LOGITS[0]
    # Nine equally likely quantiles of a standard normal stand for the noise.
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
def _futures() -> NDArray[np.float64]:
    """A led learner's mean chance over LOOKAHEAD episodes: (always 0 or 1, rate, logit today)."""
    moves = _moves()[[0, -1]]
    share = np.zeros((2, len(RATES), LOGITS.size))
    chance = np.broadcast_to(_chance(LOGITS), share.shape)
    for _ in range(LOOKAHEAD):
        share += chance / LOOKAHEAD
        chance = np.einsum("lrgh,lrh->lrg", moves, chance)
    return share
