"""Opponent model: the opponent's type and next action, inferred from its observed actions.

Type-based reasoning in the manner of Albrecht and Ramamoorthy (2013, "A game-theoretic model and
best-response learning method for ad hoc coordination"): a few kinds of player are thought possible,
each predicts the next actions, and each is believed as far as it predicted well.

- stationary: draws from one unknown distribution. Exact posterior from all rounds.
- changing: the same, with counts that fade from episode to episode.
- conditional: a distribution for each outcome of the round before (tit-for-tat is one of them).
- reactive: the same, with counts that fade.
- learner (in games of two actions): moves its logit from episode to episode, see
  `learner_filter`."""

from __future__ import annotations

from collections.abc import Collection
from math import lgamma

import numpy as np
from numpy.typing import NDArray

from srl_agents.baselines.learner_filter import FILTERS, PRIOR, LearnerFilter
from srl_agents.scripted.memory_one import situations

PRIOR_WEIGHT = 0.1  # rounds' worth of belief that a cell pays the mean of all rewards seen


class PayoffTable:
    """Mean and standard error of the own reward per joint action, (N, own action, other's)."""

    def __init__(self, runs: int, actions: int = 2) -> None:
        self._cells = actions * actions
        self._shape = (runs, actions, actions)
        self.count = np.zeros(self._shape)
        self._total = np.zeros(self._shape)
        self._squares = np.zeros(self._shape)

    def add(
        self, own_NT: NDArray[np.int8], other_NT: NDArray[np.int8], reward_NT: NDArray[np.float64]
    ) -> None:
        runs, actions = self._shape[:2]
        cell_NT = np.arange(runs)[:, None] * self._cells + own_NT * actions + other_NT
        flat = cell_NT.ravel()
        for table, weights in (
            (self.count, None),
            (self._total, reward_NT.ravel()),
            (self._squares, np.square(reward_NT).ravel()),
        ):
            table += np.bincount(flat, weights, minlength=table.size).reshape(self._shape)

    def of(self, run: int) -> PayoffTable:
        """Return the table of one run."""
        alone = PayoffTable(1, self._shape[1])
        alone.count, alone._total, alone._squares = (
            table[run : run + 1] for table in (self.count, self._total, self._squares)
        )
        return alone

    def mean(self) -> NDArray[np.float64]:
        """Return expected rewards; an unseen joint action has the mean of all rewards."""
        known = self._total + PRIOR_WEIGHT * self._overall()[:, None, None]
        return np.asarray(known / (self.count + PRIOR_WEIGHT))

    def error(self) -> NDArray[np.float64]:
        """Return standard errors of `mean`; an unseen joint action has the spread of all
        rewards."""
        seen = self.noise()[:, None, None] / np.sqrt(np.maximum(self.count, 1.0))
        rounds = np.maximum(self.count.sum(axis=(1, 2)), 1.0)
        square = self._squares.sum(axis=(1, 2)) / rounds
        spread = np.sqrt(np.maximum(square - np.square(self._overall()), 0.0))
        return np.asarray(np.where(self.count > 0, seen, spread[:, None, None]))

    def noise(self) -> NDArray[np.float64]:
        """Return the pooled standard deviation of rewards: (N,)."""
        seen = np.maximum(self.count, 1.0)
        around = (self._squares - self._total * self._total / seen).sum(axis=(1, 2))
        freedom = self.count.sum(axis=(1, 2)) - (self.count > 0).sum(axis=(1, 2))
        return np.asarray(np.sqrt(np.maximum(around, 0.0) / np.maximum(freedom, 1.0)))

    def _overall(self) -> NDArray[np.float64]:
        rounds = np.maximum(self.count.sum(axis=(1, 2)), 1.0)
        return np.asarray(self._total.sum(axis=(1, 2)) / rounds)


COUNTED = ("stationary", "changing", "conditional", "reactive")
FADING = (False, True, False, True)
LOOKS_BACK = (False, False, True, True)
PRIOR_COUNT = 0.5  # Jeffreys' prior for a chance

_lgamma = np.vectorize(lgamma, otypes=[float])


class PartnerModel:
    """Beliefs about the partner's type and next actions, for N runs.

    `fading` in (0, 1] is the weight that counts and evidence keep from episode to episode.
    `types` must contain a type of COUNTED.
    """

    def __init__(self, runs: int, fading: float, types: Collection[str], actions: int = 2) -> None:
        self._fading, self._actions = fading, actions
        self._all_NCK = np.zeros((runs, 1 + actions * actions, actions))
        self._recent_NCK = np.zeros_like(self._all_NCK)
        self._learner = LearnerFilter(runs) if "learner" in types and actions == 2 else None
        kinds = [*COUNTED, *["learner"] * FILTERS] if self._learner else [*COUNTED]
        shares = [float(kind in types) for kind in kinds]
        shares[len(COUNTED) :] = PRIOR if self._learner else ()
        with np.errstate(divide="ignore"):
            self._log_prior = np.log(shares)
        self._log_evidence = np.zeros((runs, len(kinds)))

    def add(self, own_NT: NDArray[np.int8], other_NT: NDArray[np.int8]) -> None:
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

    def learner(self) -> NDArray[np.float64]:
        """Return the probability of a learner: (N,)."""
        return np.asarray(self._weights()[:, len(COUNTED) :].sum(axis=1))

    def replies(self) -> NDArray[np.float64]:
        """Return the distribution over actions in each situation, without learners: (N, C, K)."""
        return self._mixed([_mean(counts) for counts in self._counts()])

    def doubt(self, rounds: int) -> NDArray[np.float64]:
        """Return the largest change of a reply's probability by `rounds` more rounds: (N, C).

        The knowledge gradient (Frazier, Powell and Dayanik 2008), a standard deviation.
        """
        spreads = []
        for counts in self._counts():
            chance, seen = _mean(counts), counts.sum(axis=-1, keepdims=True)
            variance = chance * (1.0 - chance) / (seen + self._actions * PRIOR_COUNT + 1.0)
            spreads.append(np.sqrt(variance * rounds / (seen + rounds)).max(axis=-1))
        return self._mixed(spreads)

    def led(self) -> NDArray[np.float64]:
        """Return the share of the action 1 of a learner under each constant own action: (N, 2)."""
        if self._learner is None:
            return np.full((len(self._all_NCK), 2), 0.5)
        weight_NF = self._weights()[:, len(COUNTED) :]
        weight_NF = weight_NF / np.maximum(weight_NF.sum(axis=1, keepdims=True), 1e-300)
        return self._learner.led(weight_NF)

    def _counts(self) -> list[NDArray[np.float64]]:
        """Return the counts of each type: (N, C, K) each."""
        counts = []
        for fades, looks_back in zip(FADING, LOOKS_BACK, strict=True):
            kept_NCK = self._recent_NCK if fades else self._all_NCK
            if not looks_back:
                kept_NCK = np.broadcast_to(kept_NCK.sum(axis=1, keepdims=True), kept_NCK.shape)
            counts.append(kept_NCK)
        return counts

    def _mixed(self, by_type: list[NDArray[np.float64]]) -> NDArray[np.float64]:
        weight_NF = self._weights()[:, : len(COUNTED)]
        total_N1 = weight_NF.sum(axis=1, keepdims=True)
        even = np.full_like(weight_NF, 1.0 / len(COUNTED))
        share_NF = np.divide(weight_NF, total_N1, out=even, where=total_N1 > 0)
        shape = (-1, *[1] * (by_type[0].ndim - 1))
        return np.asarray(
            sum(share_NF[:, f].reshape(shape) * said for f, said in enumerate(by_type))
        )

    def _weights(self) -> NDArray[np.float64]:
        log_weight = self._log_prior + self._log_evidence
        weight = np.exp(log_weight - log_weight.max(axis=1, keepdims=True))
        return np.asarray(weight / weight.sum(axis=1, keepdims=True))


def _mean(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    total = counts.sum(axis=-1, keepdims=True) + counts.shape[-1] * PRIOR_COUNT
    return np.asarray((counts + PRIOR_COUNT) / total)


def _log_chance(new: NDArray[np.float64], old: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(_log_beta(old + new + PRIOR_COUNT) - _log_beta(old + PRIOR_COUNT))


def _log_beta(counts: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.asarray(_lgamma(counts).sum(axis=-1) - _lgamma(counts.sum(axis=-1)))
