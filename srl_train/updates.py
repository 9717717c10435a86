"""Update strategies: functions that combine the updates of several models.

A strategy is a set of pure functions on the gradients and weights of all models, with an explicit
state that checkpoints can save: mappings, lists, numbers, text and tensors.

To add a strategy, write a function that returns an `UpdateStrategy` and add it to `STRATEGIES`.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter

from srl_envs.tables import Plugin, PluginTable
from srl_train import fsdp
from srl_train.config.learning.updates import ServerConfig
from srl_train.errors import ConfigError, UpdateError

Tensors = Mapping[str, Mapping[str, Tensor] | None]
"""Model to parameter name to tensor. None for a model that has no tensors or must not update."""
Parameters = Mapping[str, Mapping[str, Tensor]]
"""Model to parameter name to tensor, for every model."""
Traffic = Mapping[str, int]
"""Model to the bytes that it sent and received since the start of the run."""
Groups = Sequence[Sequence[str]]
"""Names of models that are averaged with each other. Empty: all models together. With groups, a
model in no group is not averaged."""

SIGNIFICANT = 3.0
"""Standard errors above which two scores differ."""


# The protocol.


class RoundContext(NamedTuple):
    """Round and optimizer step at which a strategy is called."""

    round: int
    """Round number, from 0; in a stage before the rounds, the number of the pass."""
    step: int
    """Optimizer step within the update, from 0; always 0 in `on_weights`."""
    scores: Mapping[str, float]
    """Model to its score of this round in standard errors (srl_train.scores), higher is better;
    only models that played. 0.0 in stages."""
    samples: Mapping[str, int] = MappingProxyType({})
    """Model to the number of samples of its current update; others are missing."""
    closing: bool = False
    """True for the last update of a stage before the rounds."""


def no_state(models: Sequence[str]) -> dict[str, Any]:
    """Return {}, the state of a stateless strategy.

    Args:
        models: Names of the models, which have no effect.
    """
    return {}


def unchanged(*arguments: Any) -> tuple[Any, Any]:
    """Return (tensors, state) of `arguments` that end with (tensors, state, context)."""
    *_, tensors, state, _context = arguments
    return tensors, state


class UpdateStrategy(NamedTuple):
    """Update strategy: functions that combine the gradients or weights of all models."""

    init: Callable[[Sequence[str]], Any]
    """Names of the models -> initial state."""
    on_gradients: Callable[[Tensors, Any, RoundContext], tuple[Tensors, Any]] = unchanged
    """(gradients, state, context) -> (gradients to apply, state); before each optimizer step. A
    gradient is None for a model without a step, and for a gradient that is not finite."""
    on_weights: Callable[[Tensors, Tensors, Any, RoundContext], tuple[Tensors, Any]] = unchanged
    """(weights before the update, weights after it, state, context) -> (new weights, state), for
    all models, including models without an update."""
    check: Callable[[Parameters], None] = lambda parameters: None
    """Raise UpdateError, before training starts, for models that the strategy cannot update."""
    traffic: Callable[[Any], Traffic] = lambda state: {}
    """State -> bytes that each model would have exchanged since the start; empty if not counted."""


# Averaging.


def check_compatible(parameters: Parameters, groups: Groups = ()) -> None:
    """Raise UpdateError if models of one group (without groups: all) differ in names or shapes."""
    for first, *others in members_of(parameters, groups):
        expected = {name: list(tensor.shape) for name, tensor in parameters[first].items()}
        for other in others:
            found = {name: list(tensor.shape) for name, tensor in parameters[other].items()}
            for name in (*expected, *found):
                if expected.get(name) != found.get(name):
                    raise UpdateError(
                        f"{first} and {other} cannot be averaged: {name!r} has shape "
                        f"{expected.get(name)} in {first} and {found.get(name)} in {other}; put "
                        "them into different groups, or use a strategy that averages nothing"
                    )


def check_groups(models: Sequence[str], groups: Groups) -> None:
    """Raise UpdateError for an unknown model in `groups`, or a model that occurs twice in them."""
    for name, times in Counter(name for group in groups for name in group).items():
        if name not in models:
            raise UpdateError(f"groups must name {', '.join(sorted(models))}, got {name!r}")
        if times > 1:
            raise UpdateError(f"{name!r} is in {times} groups: a model can be averaged in one only")


def members_of(models: Collection[str], groups: Groups) -> list[list[str]]:
    """Return the sorted `models` of each group that has any; without groups, one list of all."""
    found = [sorted(set(group) & set(models)) for group in (groups or [list(models)])]
    return [group for group in found if group]


def not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """Return the name of the first tensor with NaN or infinity, or None; collective if sharded."""
    for name, tensor in tensors.items():
        if not fsdp.full(tensor.isfinite().all()):
            return name
    return None


@torch.no_grad()
def weighted_mean(
    members: Mapping[str, Mapping[str, Tensor]], weights: Mapping[str, float]
) -> dict[str, Tensor]:
    """Return the weighted mean of the models' tensors by parameter name, in float32 or wider.

    `members` is model -> tensors, and `weights` model -> weight, of which at least one must be
    above 0. Models of weight 0 are excluded, even if they contain NaN. The result is on the device
    of the first remaining model by name.
    """
    order = sorted(model for model in members if weights[model] > 0.0)
    whole = math.fsum(weights[model] for model in order)
    mean = {}
    for name, like in members[order[0]].items():
        total = torch.zeros_like(like, dtype=torch.promote_types(like.dtype, torch.float32))
        for model in order:
            total += weights[model] * members[model][name].to(total)
        mean[name] = total / whole
    return mean


def copied(values: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return copies of the tensors, with the dtype and device of the same name in `like`."""
    # Models must not share the result, because gradient clipping changes tensors in place.
    return {
        name: value.to(device=like[name].device, dtype=like[name].dtype, copy=True)
        for name, value in values.items()
    }


def _size(tensors: Mapping[str, Tensor]) -> int:
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())


# The strategies.


def asynchronous() -> UpdateStrategy:
    """Return the strategy in which every model updates independently.

    A model with a sample budget updates when the budget is full, other models after each round.
    """
    return UpdateStrategy(no_state)


def synchronized(groups: Groups = ()) -> UpdateStrategy:
    """Return the strategy that applies a group's mean gradient to its models (data-parallel SGD).

    At every optimizer step the unweighted mean is over the models that have a gradient, and every
    model of the group applies it. Equal models with equal optimizers thus stay bit-identical.
    Without any gradient in the group, none of its models updates.

    Args:
        groups: Names of models that are averaged with each other; empty averages all models. With
            groups, models in none update independently.

    Raises:
        UpdateError: By the strategy's functions, for wrong groups or different parameters in one.
    """

    def init(models: Sequence[str]) -> dict[str, Any]:
        check_groups(models, groups)
        return {}

    def on_gradients(gradients: Tensors, state: Any, context: RoundContext) -> tuple[Tensors, Any]:
        applied = dict(gradients)
        for group in members_of(gradients, groups):
            having = {m: found for m in group if (found := gradients[m]) is not None}
            if not having:
                continue
            check_compatible(having)
            mean = weighted_mean(having, dict.fromkeys(having, 1.0))
            some = having[min(having)]
            for model in group:
                applied[model] = copied(mean, like=having.get(model, some))
        return applied, state

    return UpdateStrategy(init, on_gradients, check=partial(check_compatible, groups=groups))


def selective(fraction: float = 0.5, patience: int = 4) -> UpdateStrategy:
    """Return the strategy that updates only the best max(1, floor(fraction * n)) of n candidates.

    Candidates are the models with a score and a gradient. Scores are in standard errors
    (srl_train.scores), and differences up to SIGNIFICANT are ties. The next selected model is
    always the one that has waited longest, then the first by name, of the models tied with the best
    remaining model. A candidate that has waited `patience` rounds is selected in addition.

    The choice is made at the first optimizer step of each update, and remains for its other steps.
    """

    def init(models: Sequence[str]) -> dict[str, Any]:
        return {"round": None, "selected": [], "waited": dict.fromkeys(models, 0)}

    def choose(gradients: Tensors, state: Any, context: RoundContext) -> dict[str, Any]:
        waited = dict(state["waited"])
        scores = {
            model: context.scores[model]
            for model, found in gradients.items()
            if found is not None and model in context.scores
        }
        ranked = _ranked(scores, waited)
        # 0.29 * 100 is 28.999999999999996 in floats; the user meant 29.
        places = max(1, math.floor(fraction * len(ranked) + 1e-9))
        overdue = [model for model in ranked[places:] if waited[model] >= patience]
        selected = sorted([*ranked[:places], *overdue])
        for model in ranked:
            waited[model] = 0 if model in selected else waited[model] + 1
        return {"round": context.round, "selected": selected, "waited": waited}

    def on_gradients(gradients: Tensors, state: Any, context: RoundContext) -> tuple[Tensors, Any]:
        if context.step == 0 or context.round != state["round"]:
            state = choose(gradients, state, context)
        kept = {
            model: found if model in state["selected"] else None
            for model, found in gradients.items()
        }
        return kept, state

    return UpdateStrategy(init, on_gradients)


def _ranked(scores: Mapping[str, float], waited: Mapping[str, int]) -> list[str]:
    left = sorted(scores, key=lambda model: (-waited[model], model))
    ranked: list[str] = []
    while left:
        best = max(scores[model] for model in left)
        ranked.append(next(model for model in left if scores[model] >= best - SIGNIFICANT))
        left.remove(ranked[-1])
    return ranked


def federated(
    mix: float = 1.0,
    groups: Groups = (),
    *,
    period: int = 1,
    server: ServerConfig | None = None,
) -> UpdateStrategy:
    """Return the strategy that averages the models' weights after every `period` rounds.

    Within each of the `groups` (empty: all models): new = mix * common + (1 - mix) * own. The
    common weights are the mean, weighted by the samples of the period (McMahan et al. 2017, alg.
    1), or with a `server` the result of its optimizer (`server_step`). Models without samples do
    not count in the mean, but receive it. Rounds without any update do not count; the end of a
    stage before the rounds ends a period.

    Raises:
        UpdateError: By the strategy's functions, for wrong groups or different parameters in one.
    """

    def init(models: Sequence[str]) -> dict[str, Any]:
        check_groups(models, groups)
        return {
            "models": list(models),
            "rounds": 0,  # since the last mean, as the samples
            "samples": {},
            "common": {},  # group to its common weights, for a server
            "server": {},  # group to its optimizer state
            "traffic": {model: [0, 0] for model in models},  # bytes sent and received
        }

    def numbered(state: Any) -> list[tuple[str, list[str]]]:
        return [(str(n), members) for n, members in enumerate(members_of(state["models"], groups))]

    def first_common(before: Tensors, state: Any) -> dict[str, Any]:
        found = {}
        for key, group in numbered(state):
            initial = {m: tensors for m in group if (tensors := before.get(m)) is not None}
            check_compatible(initial)
            found[key] = weighted_mean(initial, dict.fromkeys(initial, 1.0))
        return found

    def on_weights(
        before: Tensors, after: Tensors, state: Any, context: RoundContext
    ) -> tuple[Tensors, Any]:
        samples = Counter(state["samples"]) + Counter(context.samples)
        state = {**state, "rounds": state["rounds"] + 1, "samples": dict(samples)}
        if server is not None and not state["common"]:
            state["common"] = first_common(before, state)
        if state["rounds"] < period and not context.closing:
            return after, state
        result = dict(after)
        common, optimizers = dict(state["common"]), dict(state["server"])
        traffic = {model: list(known) for model, known in state["traffic"].items()}
        for key, group in numbered(state):
            present = {m: tensors for m in group if (tensors := after.get(m)) is not None}
            weights = {m: float(samples[m]) for m in sorted(present) if samples[m]}
            if not weights:
                continue
            check_compatible(present)
            new = weighted_mean({model: present[model] for model in weights}, weights)
            if server is not None:
                one = present[min(present)]
                start = {n: fsdp.like(v.to(one[n].device), one[n]) for n, v in common[key].items()}
                new, optimizers[key] = server_step(server, start, new, optimizers.get(key))
                common[key] = new
            for model, tensors in present.items():
                result[model] = copied(_mixed(new, tensors, mix), like=tensors)
                if len(present) > 1 and mix > 0.0:
                    traffic[model][0] += _size(tensors) if model in weights else 0
                    traffic[model][1] += _size(tensors)
        return result, {
            **state,
            "rounds": 0,
            "samples": {},
            "common": common,
            "server": optimizers,
            "traffic": traffic,
        }

    return UpdateStrategy(
        init,
        on_weights=on_weights,
        check=partial(check_compatible, groups=groups),
        traffic=lambda state: {model: sum(both) for model, both in state["traffic"].items()},
    )


@torch.no_grad()
def _mixed(
    mean: Mapping[str, Tensor], weights: Mapping[str, Tensor], mix: float
) -> Mapping[str, Tensor]:
    if mix == 1.0:  # `weights` may contain NaN, and 0 * NaN is NaN
        return mean
    return {n: mix * value + (1.0 - mix) * weights[n].to(value) for n, value in mean.items()}


def server_step(
    server: ServerConfig,
    common: Mapping[str, Tensor],
    mean: Mapping[str, Tensor],
    state: Mapping[str, Any] | None,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return (common weights after one SGD step towards the mean, new optimizer state).

    `common - mean` is the gradient (Reddi et al. 2021, alg. 1; Douillard et al. 2023, alg. 1).

    Args:
        server: Learning rate and momentum; Nesterov momentum if its name is "diloco".
        common: Weights after the last average, by parameter name.
        mean: Weighted mean of the models' weights.
        state: Optimizer state from the last call; None at the first step.
    """
    parameters = {name: Parameter(value.clone()) for name, value in common.items()}
    optimizer = torch.optim.SGD(
        parameters.values(),
        lr=server.rate,
        momentum=server.momentum,
        nesterov=server.name == "diloco",
    )
    if state is not None:
        saved = copy.deepcopy(dict(state))  # the step below changes tensors in place
        optimizer.load_state_dict(fsdp.optimizer_state_like(saved, optimizer))
    for name, value in mean.items():
        parameters[name].grad = common[name] - value
    optimizer.step()
    moved = {name: parameter.detach() for name, parameter in parameters.items()}
    return moved, optimizer.state_dict()


STRATEGIES = PluginTable(
    "core_srl.strategies",
    {
        "asynchronous": Plugin(lambda section: asynchronous()),
        "synchronized": Plugin(lambda section: synchronized(section.groups)),
        "selective": Plugin(lambda section: selective(section.fraction, section.patience)),
        "federated": Plugin(
            lambda section: federated(
                section.mix, section.groups, period=section.period, server=section.server
            )
        ),
    },
    ConfigError,
)
"""Name to a function from the `updates` section of a configuration to the strategy."""
