"""Federated averaging: models learn apart and are averaged after every round."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import torch
from torch import Tensor

from srl_train.config.bounds import above, within
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

By = Literal["samples", "scores"]
TEMPERATURE = 4.0
"""In standard errors: four equal models' weights lie near .25, a clearly better one's above."""


def federated(
    by: By = "samples",
    temperature: float = TEMPERATURE,
    mix: float = 1.0,
    groups: Groups = (),
) -> UpdateStrategy:
    """Every model takes the weighted mean of the weights.

    After a round, within each group: new = mix * mean + (1 - mix) * own. `by` "samples" weighs
    the models by the number of samples they trained on (McMahan et al. 2017, alg. 1), "scores" by
    softmax(score / temperature), scores and temperature in standard errors
    (srl_train.updates.scores).
    Models without samples, or without a score, do not count in the mean and take it too. With mix 1
    all end equal to the bit. A model that is None stays None; a group in which nobody counts is
    left as it is.

    LoRA: the mean of A and the mean of B are averaged apart, and their product is not the mean of
    the products B A. It is exact when all adapters share one A (or one B), close while they have
    moved little from an equal start, and wrong by any amount otherwise. So start all adapters
    equal and keep mix at 1, which makes them equal again after every round.

    Raises ConfigError for temperature <= 0 or mix outside 0..1, UpdateError for a group of unknown
    models, where parameter names or shapes differ within a group, and for a score or a weight not
    finite.
    """
    above("federated temperature", temperature, 0.0)
    within("federated mix", mix, 0.0, 1.0)

    def init(models: Sequence[str]) -> dict[str, Any]:
        check_groups(models, groups)
        return {}

    def shares(models: Sequence[str], context: RoundContext) -> dict[str, float]:
        if by == "scores":
            scores = {model: context.scores[model] for model in models if model in context.scores}
            return score_weights(scores, temperature)
        return {m: float(context.samples[m]) for m in models if context.samples.get(m)}

    def on_weights(
        before: Tensors, after: Tensors, state: Any, context: RoundContext
    ) -> tuple[Tensors, Any]:
        taken = dict(after)
        for group in members_of(after, groups):
            own = {model: after[model] for model in group}
            present = {model: found for model, found in own.items() if found is not None}
            counted = shares(sorted(present), context)
            if not counted:
                continue
            check_compatible(present)
            mean = weighted_mean({model: present[model] for model in counted}, counted)
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
            raise UpdateError(f"the score of {model} is {score}: give a finite number")
    best = max(scores.values(), default=0.0)
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
