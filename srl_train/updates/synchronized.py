"""Synchronized updates: the mean gradient for all models."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from srl_train.updates.averaging import (
    Groups,
    check_compatible,
    check_groups,
    copied,
    members_of,
    weighted_mean,
)
from srl_train.updates.strategy import RoundContext, Tensors, UpdateStrategy


def synchronized(groups: Groups = ()) -> UpdateStrategy:
    """Every model applies the mean gradient (data-parallel SGD across models).

    At every optimizer step the mean is taken over the models that have a gradient, and all models
    of the group apply it, also those without one this step: models that start equal, with equal
    optimizers, stay equal to the bit. If no model has a gradient, none gets one.

    With LoRA adapters the gradients of A and of B are averaged, which is the gradient of the mean
    loss with respect to shared A and B only while all adapters are equal: start them equal.
    Averaging A and B apart is not averaging their product.

    Raises UpdateError for a group of unknown models, and where parameter names or shapes differ
    within a group.
    """

    def init(models: Sequence[str]) -> dict[str, Any]:
        check_groups(models, groups)
        return {}

    def on_gradients(gradients: Tensors, state: Any, context: RoundContext) -> tuple[Tensors, Any]:
        applied = dict(gradients)
        for group in members_of(gradients, groups):
            own = {model: gradients[model] for model in group}
            having = {model: found for model, found in own.items() if found is not None}
            if not having:
                continue
            check_compatible(having)
            mean = weighted_mean(having, dict.fromkeys(having, 1.0))
            some = having[min(having)]
            for model in group:
                applied[model] = copied(mean, like=having.get(model, some))
        return applied, state

    return UpdateStrategy(init, on_gradients, check=partial(check_compatible, groups=groups))
