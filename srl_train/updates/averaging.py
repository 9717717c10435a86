"""Averaging of models' parameters and gradients, and checks that they can be averaged."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import torch
from torch import Tensor

from srl_train.distributed import fsdp
from srl_train.distributed.fsdp import full
from srl_train.errors import UpdateError
from srl_train.updates.strategy import Parameters

Groups = Sequence[Sequence[str]]
"""Names of models that are averaged among themselves. Empty: all models together. A model in no
group, where there are groups, stays on its own."""


def check_compatible(parameters: Parameters, groups: Groups = ()) -> None:
    """Raise UpdateError unless the models of each group have equal parameter names and shapes.

    The error names the two models and the first parameter that differs.
    """
    for members in members_of(parameters, groups):
        first = members[0]
        expected = {name: tensor.shape for name, tensor in parameters[first].items()}
        for other in members[1:]:
            found = {name: tensor.shape for name, tensor in parameters[other].items()}
            for name in (*expected, *found):
                if expected.get(name) != found.get(name):
                    raise UpdateError(
                        f"{first} and {other} cannot be averaged: {name!r} is "
                        f"{_words(expected.get(name))} in {first} and {_words(found.get(name))} "
                        f"in {other}; put them into different groups, or use a strategy that "
                        "averages nothing"
                    )


def check_groups(models: Sequence[str], groups: Groups) -> None:
    """Raise UpdateError for a group that names an unknown model, or a model in two groups."""
    for name, times in Counter(name for group in groups for name in group).items():
        if name not in models:
            raise UpdateError(f"a group names {name!r}: the models are {', '.join(sorted(models))}")
        if times > 1:
            raise UpdateError(f"{name!r} is in {times} groups: a model can be averaged in one only")


def members_of(models: Collection[str], groups: Groups) -> list[list[str]]:
    """Of each group, those of the models that are in it; all in one where there are no groups."""
    found = [sorted(set(group) & set(models)) for group in (groups or [list(models)])]
    return [group for group in found if group]


def not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """The name of the first tensor that holds NaN or infinity; None where all are finite."""
    return next((n for n, own in tensors.items() if not full(own.isfinite().all())), None)


@torch.no_grad()
def weighted_mean(
    members: Mapping[str, Mapping[str, Tensor]], weights: Mapping[str, float]
) -> dict[str, Tensor]:
    """Parameter name -> sum of weight * tensor over the members, divided by the sum of weights.

    Sums in the order of the names and in float32 or wider, so that the same inputs give the same
    bits. Members of weight 0 are left out: 0 * NaN is NaN. The result lies where the first
    member's tensor does. Raises UpdateError for a member that is not finite: it would spoil all.
    """
    order = sorted(model for model in members if weights[model] > 0.0)
    for model in order:
        if (name := not_finite(members[model])) is not None:
            raise UpdateError(
                f"{model} cannot be averaged with others: its {name!r} holds NaN or infinity; "
                "leave it out (None)"
            )
    whole = math.fsum(weights[model] for model in order)
    mean = {}
    for name, like in members[order[0]].items():
        total = torch.zeros_like(like, dtype=torch.promote_types(like.dtype, torch.float32))
        for model in order:
            total += weights[model] * members[model][name].to(total)
        mean[name] = total / whole
    return mean


def copied(values: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copies of the values with the dtype and device of `like`.

    Every model gets its own: clipping a gradient works in place, and would otherwise scale all.
    """
    return {
        name: value.to(device=like[name].device, dtype=like[name].dtype, copy=True)
        for name, value in values.items()
    }


def placed(values: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The values where those of `like` lie: on their devices, in slices where they are sliced."""
    return {name: fsdp.like(own.to(like[name].device), like[name]) for name, own in values.items()}


def size(tensors: Mapping[str, Tensor]) -> int:
    """Bytes of the tensors, as they are."""
    return sum(own.numel() * own.element_size() for own in tensors.values())


def _words(shape: torch.Size | None) -> str:
    return "absent" if shape is None else str(list(shape))
