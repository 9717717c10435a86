"""Federated averaging: models learn apart and are averaged every few rounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from srl_train.config.bounds import above, at_least, within
from srl_train.config.learning.updates import Adapters, AverageServer, Server
from srl_train.errors import UpdateError
from srl_train.updates.adapters import check_adapters, check_shared, held_factor, without
from srl_train.updates.averaging import (
    Groups,
    check_compatible,
    check_groups,
    copied,
    members_of,
    placed,
    size,
    weighted_mean,
)
from srl_train.updates.servers import stepped
from srl_train.updates.strategy import (
    Parameters,
    RoundContext,
    Tensors,
    UpdateStrategy,
    unchanged,
)

By = Literal["samples", "scores"]
AVERAGE = AverageServer()
TEMPERATURE = 4.0
"""In standard errors: weights of equal models lie near each other where starts favour nobody."""


def federated(
    by: By = "samples",
    temperature: float = TEMPERATURE,
    mix: float = 1.0,
    groups: Groups = (),
    *,
    period: int = 1,
    proximal: float = 0.0,
    server: Server = AVERAGE,
    adapters: Adapters = "factors",
) -> UpdateStrategy:
    """Models learn apart for `period` rounds, then take the weighted mean of their weights.

    Within each group: new = mix * common + (1 - mix) * own. The common weights are the mean, or
    what another `server` makes of it (srl_train.updates.servers). `by` "samples" weighs the models
    by the number of samples they trained on since the last mean (McMahan et al. 2017, alg. 1),
    "scores" by softmax(score / temperature), scores and temperature in standard errors
    (srl_train.updates.scores); over several rounds a score is their sum over the root of their
    number, which again is in standard errors.
    Models without samples, or without a score, do not count in the mean and take it too. With mix 1
    all end equal to the bit. A model that is None stays None; a group in which nobody counts is
    left as it is. Rounds in which nobody learned do not count; the end of a stage before the rounds
    ends a period.

    `proximal` is FedProx's mu (Li et al. 2020, eq. 2): each model's loss gets mu / 2 times the
    squared L2 distance of its weights from the last common ones. What is added is its gradient,
    mu * (own - common), to the gradient of the loss, before clipping and the optimizer.

    LoRA, `adapters` "factors": the mean of A and the mean of B are averaged apart, and their
    product is not the mean of the products B A; it is close while the adapters have moved little
    from an equal start, and wrong by any amount otherwise. "alternating": of A and B one is trained
    in a period and the other shared, so that the mean is exact (srl_train.updates.adapters).

    Raises ConfigError for temperature <= 0, mix outside 0..1, or below 1 with alternating adapters,
    period < 1 or proximal < 0, UpdateError for a group of unknown models, where parameter names or
    shapes differ within a group, for adapters that alternate and do not begin equal, and for a
    score or a weight not finite.
    """
    above("federated temperature", temperature, 0.0)
    within("federated mix", mix, 0.0, 1.0)
    at_least("federated period", period, 1)
    at_least("federated proximal", proximal, 0.0)
    averages, alternates = isinstance(server, AverageServer), adapters == "alternating"
    if alternates:
        at_least("federated mix with alternating adapters", mix, 1.0)

    def init(models: Sequence[str]) -> dict[str, Any]:
        check_groups(models, groups)
        return {
            "models": list(models),
            **_new_period(),
            "common": {},  # group -> the weights that all took last, where they are read
            "server": {},  # group -> its optimizer's state
            "means": {},  # group -> how many it has taken, where adapters alternate
            "traffic": {model: [0, 0] for model in models},
        }

    def numbered(state: Any) -> list[tuple[str, list[str]]]:
        return [(str(n), own) for n, own in enumerate(members_of(state["models"], groups))]

    def shares(models: Sequence[str], state: Any) -> dict[str, float]:
        if by == "scores":
            scores = {m: _over_rounds(state["scores"][m]) for m in models if m in state["scores"]}
            return score_weights(scores, temperature)
        return {m: float(state["samples"][m]) for m in models if state["samples"].get(m)}

    def with_common(state: Any, weights: Callable[[str], Mapping[str, Tensor] | None]) -> Any:
        """The state that knows common weights: at first, the mean of what the models begin with."""
        if state["common"]:
            return state
        found = {}
        for key, group in numbered(state):
            own = {m: tensors for m in group if (tensors := weights(m)) is not None}
            check_compatible(own)
            found[key] = weighted_mean(own, dict.fromkeys(own, 1.0))
        return {**state, "common": found}

    def with_means(state: Any, context: RoundContext) -> Any:
        """The state that knows which factor is held, once it is seen to be shared."""
        if state["means"]:
            return state
        for _, group in numbered(state):
            check_shared({model: context.weights(model) for model in group}, held_factor(0))
        return {**state, "means": {key: 0 for key, _ in numbered(state)}}

    def on_gradients(gradients: Tensors, state: Any, context: RoundContext) -> tuple[Tensors, Any]:
        if proximal:
            state = with_common(state, context.weights)
        if alternates:
            state = with_means(state, context)
        applied = dict(gradients)
        for key, group in numbered(state):
            for model in group:
                gradient = gradients.get(model)
                if gradient is None:
                    continue
                if alternates:
                    gradient = without(gradient, held_factor(state["means"][key]))
                if proximal:
                    own, common = context.weights(model), state["common"][key]
                    gradient = _held_back(gradient, own, common, proximal)
                applied[model] = gradient
        return applied, state

    def on_weights(
        before: Tensors, after: Tensors, state: Any, context: RoundContext
    ) -> tuple[Tensors, Any]:
        if proximal or not averages:
            state = with_common(state, before.get)
        state = _with_round(state, context)
        if state["rounds"] < period and not context.closing:
            return after, state
        taken = dict(after)
        common, servers, means = dict(state["common"]), dict(state["server"]), dict(state["means"])
        traffic = {model: list(known) for model, known in state["traffic"].items()}
        for key, group in numbered(state):
            present = {m: own for m in group if (own := after.get(m)) is not None}
            counted = shares(sorted(present), state)
            if not counted:
                continue
            check_compatible(present)
            sent = present
            if key in means:
                sent = {m: without(own, held_factor(means[key])) for m, own in present.items()}
                means[key] += 1
            new = weighted_mean({model: sent[model] for model in counted}, counted)
            if not averages:
                start = placed(common[key], like=present[min(present)])
                new, servers[key] = stepped(server, start, new, servers.get(key))
            if key in common:
                common[key] = {**common[key], **new}
            for model, weights in present.items():
                taken[model] = {**weights, **copied(_mixed(new, weights, mix), like=weights)}
                if len(present) > 1 and mix > 0.0:
                    traffic[model][0] += size(sent[model]) if model in counted else 0
                    traffic[model][1] += size(sent[model])
        state = {**state, **_new_period(), "common": common, "server": servers, "means": means}
        return taken, {**state, "traffic": traffic}

    def check(parameters: Parameters) -> None:
        check_compatible(parameters, groups)
        if alternates:
            check_adapters(parameters)

    return UpdateStrategy(
        init,
        on_gradients if proximal or alternates else unchanged,
        on_weights,
        check,
        lambda state: {model: (sent, got) for model, (sent, got) in state["traffic"].items()},
    )


def _new_period() -> dict[str, Any]:
    """What is known of the rounds since the last mean: their number, and by model the samples and
    (the sum of scores, their number)."""
    return {"rounds": 0, "samples": {}, "scores": {}}


def _with_round(state: Any, context: RoundContext) -> dict[str, Any]:
    samples, scores = dict(state["samples"]), dict(state["scores"])
    for model, number in context.samples.items():
        samples[model] = samples.get(model, 0) + number
    for model, score in context.scores.items():
        total, count = scores.get(model, (0.0, 0))
        scores[model] = [total + score, count + 1]
    return {**state, "rounds": state["rounds"] + 1, "samples": samples, "scores": scores}


def _over_rounds(scores: Sequence[float]) -> float:
    """A score in standard errors of (sum, number) of scores of as many rounds."""
    total, count = scores
    return total / math.sqrt(count)


@torch.no_grad()
def _held_back(
    gradient: Mapping[str, Tensor],
    own: Mapping[str, Tensor],
    common: Mapping[str, Tensor],
    proximal: float,
) -> dict[str, Tensor]:
    """gradient + proximal * (own - common), of the parameters that have a gradient."""
    near = placed({name: common[name] for name in gradient}, like=gradient)
    return {
        name: value + (proximal * (own[name].to(near[name]) - near[name])).to(value)
        for name, value in gradient.items()
    }


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
