"""What each update strategy claims, judged by the live weights of an observed run."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
import torch
from torch import Tensor

from benchmarks.training.observed_run import ObservedRound, Weights
from benchmarks.training.records import Check
from srl_train.updates.selective import NOISE

ROUNDINGS = 8
"""A float32 mean of four models may be off by this many halves of a last place, at most: a product
and a sum per model, less one, and a division."""


def changes(observed: ObservedRound) -> dict[str, float]:
    """Model -> L2 norm, in float64, of the change of its weights in the round."""
    return {
        model: math.sqrt(
            math.fsum(
                float(((observed.after[model][name].double() - old.double()) ** 2).sum())
                for name, old in own.items()
            )
        )
        for model, own in observed.before.items()
    }


def accounted(rounds: Sequence[ObservedRound]) -> Check:
    """The run's own account of who changed, and by how much, is the one seen here."""
    worst, agree = 0.0, True
    for observed in rounds:
        for model, change in changes(observed).items():
            row = observed.row["models"][model]
            agree &= row["updated"] == (change > 0) == (row["weight_change"] > 0)
            worst = max(worst, abs(row["weight_change"] - change) / change if change else 0.0)
    return Check(
        "metrics.jsonl says the same of who changed and by how much",
        agree and worst < 1e-5,
        f"norms differ by a share of {worst:.1e} at most",
    )


def stay_equal(rounds: Sequence[ObservedRound]) -> list[Check]:
    """Synchronized."""
    equal = [_all_equal(observed.after) for observed in rounds]
    moved = all(change > 0 for observed in rounds for change in changes(observed).values())
    return [
        Check("the models start equal to the bit", _all_equal(rounds[0].before), "before round 0"),
        Check(
            "all models are equal to the bit after every round, and all moved in it",
            all(equal) and moved,
            f"equal after {sum(equal)} of {len(rounds)} rounds",
        ),
    ]


def unselected_rest(rounds: Sequence[ObservedRound]) -> list[Check]:
    """Selective."""
    resting = resting_equal = chosen = chosen_moved = 0
    best_chosen = True
    for observed in rounds:
        selected = observed.selected or ()
        for model, own in observed.before.items():
            same = _same(own, observed.after[model])
            if model in selected:
                chosen, chosen_moved = chosen + 1, chosen_moved + (not same)
            else:
                resting, resting_equal = resting + 1, resting_equal + same
        best = max(observed.scores.values())
        level = {model for model, score in observed.scores.items() if score >= best - NOISE}
        best_chosen &= bool(level & set(selected))
    return [
        Check(
            "a model that was not selected keeps its weights to the bit in that round",
            resting > 0 and resting == resting_equal,
            f"{resting_equal} of {resting} times",
        ),
        Check(
            "a selected model's weights changed",
            chosen > 0 and chosen == chosen_moved,
            f"{chosen_moved} of {chosen} times",
        ),
        Check(
            "the model with the best score, or one within noise of it, was always selected",
            best_chosen,
            f"{len(rounds)} rounds, scores worked out from the episodes",
        ),
    ]


def is_weighted_mean(
    rounds: Sequence[ObservedRound], alone: ObservedRound, temperature: float
) -> list[Check]:
    """Federated; `alone` is the first round of the same run without any strategy."""
    difference, greatest, spread = 0.0, 0.0, 0.0
    for observed in rounds:
        [offered] = observed.offered
        shares = softmax(observed.scores, temperature)
        spread = max(spread, max(shares.values()) - min(shares.values()))
        for name in next(iter(offered.values())):
            by_hand = sum(
                share * offered[model][name].double().numpy() for model, share in shares.items()
            )
            for own in observed.after.values():
                difference = max(
                    difference, float(np.abs(own[name].double().numpy() - by_hand).max())
                )
        greatest = max(greatest, _greatest(offered))
    bound = ROUNDINGS * torch.finfo(torch.float32).eps / 2 * greatest
    [first] = rounds[0].offered
    return [
        Check(
            "the new weights are the softmax(score / temperature)-weighted mean by hand (float64)",
            difference <= bound,
            f"greatest difference {difference:.2e}, float32 rounding allows {bound:.2e}; the "
            f"models' shares differ by up to {spread:.2f}",
        ),
        Check(
            "what is averaged in round 0 are the weights of the same models trained alone",
            all(_same(first[model], alone.after[model]) for model in first),
            "equal to the bit to the asynchronous run's",
        ),
    ]


def each_on_its_own(rounds: Sequence[ObservedRound]) -> list[Check]:
    """Asynchronous, without sample budgets."""
    apart = all(
        not _same(one, other)
        for observed in rounds
        for one, other in itertools.combinations(observed.after.values(), 2)
    )
    moved = all(change > 0 for observed in rounds for change in changes(observed).values())
    return [
        Check(
            "every model moved in every round, and no two are equal",
            apart and moved,
            f"{len(rounds)} rounds",
        )
    ]


def softmax(scores: Mapping[str, float], temperature: float) -> dict[str, float]:
    """Model -> its share, in float64."""
    powers = np.exp((np.array(list(scores.values())) - max(scores.values())) / temperature)
    return dict(zip(scores, (powers / powers.sum()).tolist(), strict=True))


def _greatest(weights: Weights) -> float:
    return max(float(t.abs().max()) for own in weights.values() for t in own.values())


def _same(one: Mapping[str, Tensor], other: Mapping[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def _all_equal(weights: Weights) -> bool:
    first, *others = weights.values()
    return all(_same(first, other) for other in others)
