"""Models learn apart and meet after every round."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from srl_train.bounds import above, within
from srl_train.errors import UpdateError
from srl_train.updates.averaging import (
    Groups,
    check_compatible,
    check_groups,
    copied,
    members_of,
    weighted_mean,
)
from srl_train.updates.strategy import RoundContext, Tensors, UpdateStrategy


def federated(temperature: float = 1.0, mix: float = 1.0, groups: Groups = ()) -> UpdateStrategy:
    """Every model takes the mean of the weights, weighted by softmax(score / temperature).

    After a round, within each group: new = mix * mean + (1 - mix) * own. The mean is over the
    models with a score this round (after McMahan et al. 2017, alg. 1, which weighs by the number
    of samples instead); models without a score take it too. With mix 1 all end equal to the bit.
    A model that is None stays None; a group in which nobody has a score is left as it is.

    LoRA: the mean of A and the mean of B are averaged apart, and their product is not the mean of
    the products B A. It is exact when all adapters share one A (or one B), close while they have
    moved little from an equal start, and wrong by any amount otherwise. So start all adapters
    equal and keep mix at 1, which makes them equal again after every round.

    Raises ConfigError for temperature <= 0 or mix outside 0..1, UpdateError for a group of unknown
    models, where parameter names or shapes differ within a group, and for a score not finite.
    """
    above("federated temperature", temperature, 0.0)
    within("federated mix", mix, 0.0, 1.0)

    def init(models: Sequence[str]) -> dict[str, Any]:
        check_groups(models, groups)
        return {}

    def on_weights(
        before: Tensors, after: Tensors, state: Any, context: RoundContext
    ) -> tuple[Tensors, Any]:
        taken = dict(after)
        for group in members_of(after, groups):
            own = {model: after[model] for model in group}
            present = {model: found for model, found in own.items() if found is not None}
            scored = {model: found for model, found in present.items() if model in context.scores}
            if not scored:
                continue
            check_compatible(present)
            scores = {model: context.scores[model] for model in scored}
            mean = weighted_mean(scored, score_weights(scores, temperature))
            for model, weights in present.items():
                taken[model] = copied(_mixed(mean, weights, mix), like=weights)
        return taken, state

    return UpdateStrategy(
        init, on_weights=on_weights, check=partial(check_compatible, groups=groups)
    )


def score_weights(scores: Mapping[str, float], temperature: float) -> dict[str, float]:
    """softmax(score / temperature) over the models: positive (or 0 by underflow), sum 1.

    Raises UpdateError for a score that is not finite.
    """
    for model, score in scores.items():
        if not math.isfinite(score):
            raise UpdateError(f"the score of {model} is {score}: give a finite mean return")
    best = max(scores.values())
    powers = {model: math.exp((score - best) / temperature) for model, score in scores.items()}
    whole = math.fsum(powers.values())
    return {model: power / whole for model, power in powers.items()}


@torch.no_grad()
def _mixed(
    mean: Mapping[str, Tensor], own: Mapping[str, Tensor], mix: float
) -> Mapping[str, Tensor]:
    if mix == 1.0:  # own may be NaN, and 0 * NaN is NaN
        return mean
    return {name: mix * value + (1.0 - mix) * own[name].to(value) for name, value in mean.items()}
