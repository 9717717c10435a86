"""Opponent model: beliefs about the opponent's type and next actions, from its observed actions.

Type-based reasoning as in Albrecht and Ramamoorthy (2013, "A game-theoretic model and
best-response learning method for ad hoc coordination"): each type predicts the next actions, and
its weight is the likelihood of its past predictions.

- stationary: draws from one unknown distribution; exact posterior from all rounds.
- changing: the same, with counts that are discounted every episode.
- conditional: one distribution per outcome of the last round, such as tit-for-tat.
- reactive: the same, with counts that are discounted every episode.
- learner (in games of two actions): moves its logit every episode, see `learner_filter`.
"""

from __future__ import annotations

from math import lgamma

import numpy as np

from srl_agents.arrays import Actions, Floats
from srl_agents.baselines.learner_filter import PRIOR, LearnerFilter
from srl_agents.scripted.memory_one import situations

PRIOR_WEIGHT = 0.1  # weight in rounds of the mean of all rewards as prior of each joint action


class PayoffTable:
    """Statistics of an agent's rewards by joint action [own, other's] of K actions, for N runs."""

    def __init__(self, runs: int, actions: int = 2) -> None:
        self._cells = actions * actions
        self._shape = (runs, actions, actions)
        self.count = np.zeros(self._shape)
        self._total = np.zeros(self._shape)
        self._squares = np.zeros(self._shape)

    def add(self, own_NT: Actions, other_NT: Actions, reward_NT: Floats) -> None:
        runs, actions = self._shape[:2]
        cell_NT = np.arange(runs)[:, None] * self._cells + own_NT * actions + other_NT
        flat = cell_NT.ravel()
        for table, weights in (
            (self.count, None),
            (self._total, reward_NT.ravel()),
            (self._squares, np.square(reward_NT).ravel()),
        ):
            table += np.bincount(flat, weights, minlength=table.size).reshape(self._shape)

    def mean(self) -> Floats:
        """Return the estimated mean reward of each joint action: (N, K, K).

        The mean of all rewards of the run (0 without any) is a prior with the weight of
        PRIOR_WEIGHT rewards.
        """
        known = self._total + PRIOR_WEIGHT * self._overall()[:, None, None]
        return np.asarray(known / (self.count + PRIOR_WEIGHT))

    def error(self) -> Floats:
        """Return the standard errors of `mean`: (N, K, K).

        The error is noise() / sqrt(count). For a joint action without rewards, it is the standard
        deviation of all rewards of the run.
        """
        seen = self.noise()[:, None, None] / np.sqrt(np.maximum(self.count, 1.0))
        rounds = np.maximum(self.count.sum(axis=(1, 2)), 1.0)
        square = self._squares.sum(axis=(1, 2)) / rounds
        spread = np.sqrt(np.maximum(square - np.square(self._overall()), 0.0))
        return np.asarray(np.where(self.count > 0, seen, spread[:, None, None]))

    def noise(self) -> Floats:
        """Return the pooled standard deviation of rewards around joint actions' means: (N,)."""
        seen = np.maximum(self.count, 1.0)
        around = (self._squares - self._total * self._total / seen).sum(axis=(1, 2))
        freedom = self.count.sum(axis=(1, 2)) - (self.count > 0).sum(axis=(1, 2))
        return np.asarray(np.sqrt(np.maximum(around, 0.0) / np.maximum(freedom, 1.0)))

    def _overall(self) -> Floats:
        rounds = np.maximum(self.count.sum(axis=(1, 2)), 1.0)
        return np.asarray(self._total.sum(axis=(1, 2)) / rounds)


COUNTED = ("stationary", "changing", "conditional", "reactive")
"""Types that are estimated by counting."""
FADING = (False, True, False, True)
"""True for the types whose counts are discounted."""
LOOKS_BACK = (False, False, True, True)
"""True for the types with one distribution per outcome of the last round."""
PRIOR_COUNT = 0.5  # Jeffreys' prior of a probability

_lgamma = np.vectorize(lgamma, otypes=[float])


class PartnerModel:
    """Beliefs about the partner's type and next actions, for N runs.

    A partner of type stationary or changing has one action distribution; of type conditional or
    reactive, one per situation. A learner, only with K = 2 actions, takes gradient steps. There are
    C situations: 0 is the start of an episode, 1 + K * own + other follows a joint action.
    `fading`, in (0, 1], is the fraction kept per episode of the evidence for all types, and of the
    counts of the changing and reactive types.
    """

    def __init__(self, runs: int, fading: float, actions: int = 2) -> None:
        self._fading, self._actions = fading, actions
        self._all_NCK = np.zeros((runs, 1 + actions * actions, actions))
        self._recent_NCK = np.zeros_like(self._all_NCK)
        self._learner = LearnerFilter(runs) if actions == 2 else None
        shares = [1.0] * len(COUNTED) + (PRIOR if self._learner else [])
        self._log_prior = np.log(shares)
        self._log_evidence = np.zeros((runs, len(shares)))

    def add(self, own_NT: Actions, other_NT: Actions) -> None:
        """Update the beliefs with both players' actions (N, T) of one whole episode."""
        runs, kinds, actions = self._all_NCK.shape
        place_NT = situations(own_NT, other_NT, actions) + kinds * np.arange(runs)[:, None]
        flat = (place_NT * actions + other_NT).ravel()
        counts = np.bincount(flat, minlength=self._all_NCK.size).astype(np.float64)
        counts_NCK = counts.reshape(self._all_NCK.shape)
        fits = []
        for fades, looks_back in zip(FADING, LOOKS_BACK, strict=True):
            kept_NCK = self._recent_NCK if fades else self._all_NCK
            if looks_back:
                fits.append(_log_chance(counts_NCK, kept_NCK).sum(axis=1))
            else:
                fits.append(_log_chance(counts_NCK.sum(axis=1), kept_NCK.sum(axis=1)))
        fit = np.stack(fits, axis=1)
        if self._learner is not None:
            learners = self._learner.add(own_NT.mean(axis=1), counts_NCK.sum(axis=1))
            fit = np.concatenate([fit, learners], axis=1)
        self._log_evidence = self._fading * self._log_evidence + fit
        self._all_NCK += counts_NCK
        self._recent_NCK = self._fading * self._recent_NCK + counts_NCK

    def learner(self) -> Floats:
        """Return the probability that the partner is a learner: (N,); 0 if K > 2."""
        return np.asarray(self._weights()[:, len(COUNTED) :].sum(axis=1))

    def replies(self) -> Floats:
        """Return the action distributions of a partner that is no learner, by situation: (N, C, K).

        They are means over the other types, weighted by their probabilities.
        """
        return self._mean_by_belief([_mean(counts) for counts in self._counts_by_type()])

    def doubt(self, rounds: int) -> Floats:
        """Return the standard deviation of the change that more rounds make in `replies`: (N, C).

        `rounds` is their number in the situation. The result is the largest over the actions
        (knowledge gradient; Frazier, Powell and Dayanik 2008).
        """
        spreads = []
        for counts in self._counts_by_type():
            chance, seen = _mean(counts), counts.sum(axis=-1, keepdims=True)
            variance = chance * (1.0 - chance) / (seen + self._actions * PRIOR_COUNT + 1.0)
            spreads.append(np.sqrt(variance * rounds / (seen + rounds)).max(axis=-1))
        return self._mean_by_belief(spreads)

    def led(self) -> Floats:
        """Return the partner's rate of action 1 if it learns and the agent is constant: (N, 2).

        The columns are the agent's action, 0 or 1. The rate is the expected mean over the next
        LOOKAHEAD episodes, and 0.5 if K > 2.
        """
        if self._learner is None:
            return np.full((len(self._all_NCK), 2), 0.5)
        weight_NF = self._weights()[:, len(COUNTED) :]
        weight_NF = weight_NF / np.maximum(weight_NF.sum(axis=1, keepdims=True), 1e-300)
        return self._learner.led(weight_NF)

    def _counts_by_type(self) -> list[Floats]:
        counts = []
        for fades, looks_back in zip(FADING, LOOKS_BACK, strict=True):
            kept_NCK = self._recent_NCK if fades else self._all_NCK
            if not looks_back:
                kept_NCK = np.broadcast_to(kept_NCK.sum(axis=1, keepdims=True), kept_NCK.shape)
            counts.append(kept_NCK)
        return counts

    def _mean_by_belief(self, by_type: list[Floats]) -> Floats:
        weight_NF = self._weights()[:, : len(COUNTED)]
        total_N1 = weight_NF.sum(axis=1, keepdims=True)
        even = np.full_like(weight_NF, 1.0 / len(COUNTED))
        share_NF = np.divide(weight_NF, total_N1, out=even, where=total_N1 > 0)
        shape = (-1, *[1] * (by_type[0].ndim - 1))
        return np.asarray(
            sum(share_NF[:, f].reshape(shape) * value for f, value in enumerate(by_type))
        )

    def _weights(self) -> Floats:
        log_weight = self._log_prior + self._log_evidence
        weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def _mean(counts: Floats) -> Floats:
    total = counts.sum(axis=-1, keepdims=True) + counts.shape[-1] * PRIOR_COUNT
    return np.asarray((counts + PRIOR_COUNT) / total)


def _log_chance(new: Floats, old: Floats) -> Floats:
    return np.asarray(_log_beta(old + new + PRIOR_COUNT) - _log_beta(old + PRIOR_COUNT))


def _log_beta(counts: Floats) -> Floats:
    return np.asarray(_lgamma(counts).sum(axis=-1) - _lgamma(counts.sum(axis=-1)))
