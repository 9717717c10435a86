"""Update strategies: how the updates of several models are combined.

A strategy is a set of pure functions on the gradients and weights of all models, with explicit
state. It never sees a trainer, an optimizer or a device, and it changes no input in place. Its
state is plain data (mappings, lists, numbers, text, tensors), so that checkpoints can save it.

To add a strategy, write a function that returns an `UpdateStrategy` and add it to `STRATEGIES`.
"""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor
from torch.nn import Parameter

from srl_envs.tables import Plugin, PluginTable
from srl_train import fsdp
from srl_train.config.bounds import above, at_least, within
from srl_train.config.learning.updates import AverageServer, Server
from srl_train.errors import ConfigError, UpdateError

Tensors = Mapping[str, Mapping[str, Tensor] | None]
"""Model to parameter name to tensor. None for a model that has no tensors or must not update:
never zeros, because AdamW moves weights on a zero gradient and 0 * NaN is NaN."""
Parameters = Mapping[str, Mapping[str, Tensor]]
"""Model to parameter name to tensor, for every model."""
Traffic = Mapping[str, tuple[int, int]]
"""Model to (bytes sent, bytes received) since the start of the run."""
Groups = Sequence[Sequence[str]]
"""Names of models that are averaged with each other. Empty: all models together. With groups, a
model in no group is not averaged."""

SIGNIFICANT = 3.0
"""Standard errors above which two scores differ: in most rounds the scores of four equal models
spread less."""


# The protocol.


def _no_weights(model: str) -> Mapping[str, Tensor]:
    raise UpdateError(f"weights of {model} are only available during an optimizer step")


class Copy(NamedTuple):
    """Replacement of a model's state by that of another model."""

    source: str
    """Model whose weights, optimizer state and hyperparameters are copied."""
    factors: Mapping[str, float]
    """Hyperparameter to the factor that it is multiplied by (Learner.scale)."""


class RoundContext(NamedTuple):
    """Round and optimizer step at which a strategy is called."""

    round: int
    """Round number, from 0."""
    step: int
    """Optimizer step within the round, from 0."""
    scores: Mapping[str, float]
    """Model to its score of this round in standard errors (srl_train.scores), higher is better;
    only models that played."""
    samples: Mapping[str, int] = MappingProxyType({})
    """Model to the number of samples of its current update."""
    weights: Callable[[str], Mapping[str, Tensor]] = _no_weights
    """Function from a model to its current weights, at an optimizer step."""
    closing: bool = False
    """True for the last update of a stage before the rounds."""
    returns: Mapping[str, Sequence[float]] = MappingProxyType({})
    """Model to its mean excess return per start of this round (srl_train.scores)."""
    seed: int = 0
    """Seed of the run."""


def no_state(models: Sequence[str]) -> dict[str, Any]:
    """Return the state of a stateless strategy."""
    return {}


def unchanged(*arguments: Any) -> tuple[Any, Any]:
    """Return the newest tensors and the state as received: the default of both hooks."""
    *_, tensors, state, _context = arguments
    return tensors, state


def any_models(parameters: Parameters) -> None:
    """Accept every set of models: the `check` of a strategy that averages nothing."""


def no_copies(state: Any, context: RoundContext) -> tuple[Mapping[str, Copy], Any]:
    """Copy no model: the default `exchange`."""
    return {}, state


def no_traffic(state: Any) -> Traffic:
    """Count no traffic: the default `traffic`."""
    return {}


class UpdateStrategy(NamedTuple):
    """Functions of one strategy; most need `init` and one of the others."""

    init: Callable[[Sequence[str]], Any]
    """Names of the models -> first state."""
    on_gradients: Callable[[Tensors, Any, RoundContext], tuple[Tensors, Any]] = unchanged
    """(gradients, state, context) -> (gradients to apply, state); at every optimizer step."""
    on_weights: Callable[[Tensors, Tensors, Any, RoundContext], tuple[Tensors, Any]] = unchanged
    """(weights before the update, weights after it, state, context) -> (new weights, state), for
    all models, including models without an update."""
    check: Callable[[Parameters], None] = any_models
    """Raise UpdateError, before training starts, for models that the strategy cannot update."""
    traffic: Callable[[Any], Traffic] = no_traffic
    """State -> bytes that the models would have exchanged over a network."""
    exchange: Callable[[Any, RoundContext], tuple[Mapping[str, Copy], Any]] = no_copies
    """(state, context) -> (model to the copy that replaces it, state); once per round, after the
    updates."""


def chain(*strategies: UpdateStrategy) -> UpdateStrategy:
    """Apply strategies one after another; each receives the result of the previous one.

    Order matters. With `chain(selective(), synchronized())` every model applies the mean of the
    selected models' gradients; with `chain(synchronized(), selective())` the selected models apply
    the mean of all gradients. All `on_weights` receive the same weights from before the round.
    """

    def init(models: Sequence[str]) -> list[Any]:
        return [strategy.init(models) for strategy in strategies]

    def hook(name: str) -> Callable[..., Any]:
        def run(*arguments: Any) -> tuple[Any, list[Any]]:
            *before, tensors, states, context = arguments
            after = []
            for strategy, state in zip(strategies, states, strict=True):
                tensors, state = getattr(strategy, name)(*before, tensors, state, context)
                after.append(state)
            return tensors, after

        return run

    def check(parameters: Parameters) -> None:
        for strategy in strategies:
            strategy.check(parameters)

    def traffic(states: Any) -> Traffic:
        total: dict[str, tuple[int, int]] = {}
        for strategy, state in zip(strategies, states, strict=True):
            for model, (sent, received) in strategy.traffic(state).items():
                before = total.get(model, (0, 0))
                total[model] = before[0] + sent, before[1] + received
        return total

    def exchange(states: Any, context: RoundContext) -> tuple[dict[str, Copy], list[Any]]:
        copies: dict[str, Copy] = {}
        after = []
        for strategy, state in zip(strategies, states, strict=True):
            found, state = strategy.exchange(state, context)
            copies |= found
            after.append(state)
        return copies, after

    exchanges = any(strategy.exchange is not no_copies for strategy in strategies)
    return UpdateStrategy(
        init,
        hook("on_gradients"),
        hook("on_weights"),
        check,
        traffic,
        exchange if exchanges else no_copies,
    )


# Averaging.


def check_compatible(parameters: Parameters, groups: Groups = ()) -> None:
    """Raise UpdateError unless the models of each group have equal parameter names and shapes."""
    for members in members_of(parameters, groups):
        first = members[0]
        expected = {name: tensor.shape for name, tensor in parameters[first].items()}
        for other in members[1:]:
            found = {name: tensor.shape for name, tensor in parameters[other].items()}
            for name in (*expected, *found):
                if expected.get(name) != found.get(name):
                    raise UpdateError(
                        f"{first} and {other} cannot be averaged: {name!r} is "
                        f"{_shape(expected.get(name))} in {first} and {_shape(found.get(name))} "
                        f"in {other}; put them into different groups, or use a strategy that "
                        "averages nothing"
                    )


def _shape(shape: torch.Size | None) -> str:
    return "absent" if shape is None else str(list(shape))


def check_groups(models: Sequence[str], groups: Groups) -> None:
    """Raise UpdateError for a group with an unknown model, or a model in two groups."""
    for name, times in Counter(name for group in groups for name in group).items():
        if name not in models:
            raise UpdateError(f"a group names {name!r}: the models are {', '.join(sorted(models))}")
        if times > 1:
            raise UpdateError(f"{name!r} is in {times} groups: a model can be averaged in one only")


def members_of(models: Collection[str], groups: Groups) -> list[list[str]]:
    """Return the given models group by group, sorted by name; without groups, all in one."""
    found = [sorted(set(group) & set(models)) for group in (groups or [list(models)])]
    return [group for group in found if group]


def not_finite(tensors: Mapping[str, Tensor]) -> str | None:
    """Return the name of the first tensor with NaN or infinity, or None."""
    return next((n for n, own in tensors.items() if not fsdp.full(own.isfinite().all())), None)


@torch.no_grad()
def weighted_mean(
    members: Mapping[str, Mapping[str, Tensor]], weights: Mapping[str, float]
) -> dict[str, Tensor]:
    """Average the members' tensors, in the order of their names and in float32 or wider.

    The fixed order makes equal inputs give equal bits. Members of weight 0 are excluded, because
    0 * NaN is NaN. The result is on the device of the first member.

    Raises:
        UpdateError: If a member is not finite.
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
    """Copy the values to the dtypes and devices of `like`.

    Every model needs its own copy: gradient clipping works in place and would scale all copies.
    """
    return {
        name: value.to(device=like[name].device, dtype=like[name].dtype, copy=True)
        for name, value in values.items()
    }


def _placed(values: Mapping[str, Tensor], like: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Move values to the devices of `like`, sharded where `like` is sharded."""
    return {name: fsdp.like(own.to(like[name].device), like[name]) for name, own in values.items()}


def _size(tensors: Mapping[str, Tensor]) -> int:
    """Return the size of the tensors in bytes."""
    return sum(own.numel() * own.element_size() for own in tensors.values())


# The strategies.


def asynchronous() -> UpdateStrategy:
    """Update every model independently.

    The sample budgets of the rounds control the pace: a model whose budget is not full has no
    gradient (None).
    """
    return UpdateStrategy(no_state)


def synchronized(groups: Groups = ()) -> UpdateStrategy:
    """Apply the mean gradient to all models of a group (data-parallel SGD across models).

    At every optimizer step the mean is over the models that have a gradient, and every model of the
    group applies it: models that start equal, with equal optimizers, stay equal to the bit. Without
    any gradient no model updates.

    For LoRA adapters the mean gradients of A and of B equal the gradient of the mean loss only
    while all adapters are equal, so start with equal adapters.

    Raises:
        UpdateError: For unknown models in a group, or different parameters within a group.
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


def selective(fraction: float = 0.5, patience: int = 4) -> UpdateStrategy:
    """Update only the best max(1, floor(fraction * n)) of the n candidates of a round.

    Candidates are the models with a score and a gradient. Scores are in standard errors
    (srl_train.scores), and differences up to SIGNIFICANT are ties: each place goes to the model
    that has waited longest among those tied with the best remaining one, then by name. A candidate
    passed over in `patience` rounds updates in the next round in addition.

    The choice is made at the first optimizer step of a round. State: "round" of the choice,
    "selected" models, and per model the rounds "waited" since its last selection; rounds in which a
    model is no candidate do not count.

    Raises:
        ConfigError: For a fraction outside 0..1 or patience below 1.
        UpdateError: For a score that is not finite.
    """
    within("selective fraction", fraction, 0.0, 1.0)
    at_least("selective patience", patience, 1)

    def init(models: Sequence[str]) -> dict[str, Any]:
        return {"round": None, "selected": [], "waited": dict.fromkeys(models, 0)}

    def choose(gradients: Tensors, state: Any, context: RoundContext) -> dict[str, Any]:
        waited = dict(state["waited"])
        scores = {
            model: context.scores[model]
            for model, found in gradients.items()
            if found is not None and model in context.scores
        }
        _check_scores(scores)
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


def _check_scores(scores: Mapping[str, float]) -> None:
    for model, score in scores.items():
        if not math.isfinite(score):
            raise UpdateError(f"score of {model} must be finite, got {score}")


def _ranked(scores: Mapping[str, float], waited: Mapping[str, int]) -> list[str]:
    """Rank the models; among those tied with the best, the longest waiting comes first."""
    left = sorted(scores, key=lambda model: (-waited[model], model))
    ranked: list[str] = []
    while left:
        best = max(scores[model] for model in left)
        ranked.append(next(model for model in left if scores[model] >= best - SIGNIFICANT))
        left.remove(ranked[-1])
    return ranked


TEMPERATURE = 4.0
"""Default temperature of score weights, in standard errors: equal models get similar weights."""


def federated(
    by: Literal["samples", "scores"] = "samples",
    temperature: float = TEMPERATURE,
    mix: float = 1.0,
    groups: Groups = (),
    *,
    period: int = 1,
    proximal: float = 0.0,
    server: Server | None = None,
) -> UpdateStrategy:
    """Let models learn independently for `period` rounds, then average their weights.

    Within each group: new = mix * common + (1 - mix) * own. The common weights are the weighted
    mean, or the result of a server optimizer (`server_step`). Rounds without any update do not
    count; the end of a stage before the rounds ends a period. State includes the common weights and
    the optimizer state of each group, and the traffic.

    LoRA: the mean of A and the mean of B are taken separately, and their product is not the mean of
    the products B A. Both are close while the adapters have moved little from an equal start.

    Args:
        by: "samples" weighs models by the samples of the period (McMahan et al. 2017, alg. 1),
            "scores" by softmax(score / temperature). Over several rounds a score is the sum of
            scores divided by the root of their number, again in standard errors. Models without
            samples or score do not count in the mean, but receive it.
        temperature: Temperature of score weights, in standard errors.
        mix: Weight of the common weights, 0 to 1; with 1 all models of a group end equal.
        groups: Models that are averaged with each other; empty for all.
        period: Rounds between two averages.
        proximal: FedProx's mu (Li et al. 2020, eq. 2): mu * (own - common) is added to each
            gradient, the gradient of mu / 2 times the squared distance from the common weights.
        server: Section of the server optimizer; None takes the mean itself.

    Raises:
        ConfigError: For an argument out of range.
        UpdateError: For unknown models in a group, different parameters within a group, or scores
            and weights that are not finite.
    """
    above("federated temperature", temperature, 0.0)
    within("federated mix", mix, 0.0, 1.0)
    at_least("federated period", period, 1)
    at_least("federated proximal", proximal, 0.0)
    averages = server is None or isinstance(server, AverageServer)

    def init(models: Sequence[str]) -> dict[str, Any]:
        check_groups(models, groups)
        return {
            "models": list(models),
            **_new_period(),
            "common": {},  # group to its common weights, if they are needed
            "server": {},  # group to its optimizer state
            "traffic": {model: [0, 0] for model in models},
        }

    def numbered(state: Any) -> list[tuple[str, list[str]]]:
        return [(str(n), own) for n, own in enumerate(members_of(state["models"], groups))]

    def shares(models: Sequence[str], state: Any) -> dict[str, float]:
        if by == "scores":
            sums = {model: state["scores"][model] for model in models if model in state["scores"]}
            scores = {model: total / math.sqrt(n) for model, (total, n) in sums.items()}
            return score_weights(scores, temperature)
        return {m: float(state["samples"][m]) for m in models if state["samples"].get(m)}

    def with_common(state: Any, weights: Callable[[str], Mapping[str, Tensor] | None]) -> Any:
        """Add the common weights to the state: at first, the mean of the initial weights."""
        if state["common"]:
            return state
        found = {}
        for key, group in numbered(state):
            own = {m: tensors for m in group if (tensors := weights(m)) is not None}
            check_compatible(own)
            found[key] = weighted_mean(own, dict.fromkeys(own, 1.0))
        return {**state, "common": found}

    def on_gradients(gradients: Tensors, state: Any, context: RoundContext) -> tuple[Tensors, Any]:
        state = with_common(state, context.weights)
        applied = dict(gradients)
        for key, group in numbered(state):
            for model in group:
                gradient = gradients.get(model)
                if gradient is not None:
                    own, common = context.weights(model), state["common"][key]
                    applied[model] = _with_proximal_term(gradient, own, common, proximal)
        return applied, state

    def on_weights(
        before: Tensors, after: Tensors, state: Any, context: RoundContext
    ) -> tuple[Tensors, Any]:
        if proximal or not averages:
            state = with_common(state, before.get)
        state = _with_round(state, context)
        if state["rounds"] < period and not context.closing:
            return after, state
        result = dict(after)
        common, optimizers = dict(state["common"]), dict(state["server"])
        traffic = {model: list(known) for model, known in state["traffic"].items()}
        for key, group in numbered(state):
            present = {m: own for m in group if (own := after.get(m)) is not None}
            weights = shares(sorted(present), state)
            if not weights:
                continue
            check_compatible(present)
            new = weighted_mean({model: present[model] for model in weights}, weights)
            if not averages:
                start = _placed(common[key], like=present[min(present)])
                new, optimizers[key] = server_step(server, start, new, optimizers.get(key))
            if key in common:
                common[key] = new
            for model, own in present.items():
                result[model] = copied(_mixed(new, own, mix), like=own)
                if len(present) > 1 and mix > 0.0:
                    traffic[model][0] += _size(own) if model in weights else 0
                    traffic[model][1] += _size(own)
        state = {**state, **_new_period(), "common": common, "server": optimizers}
        return result, {**state, "traffic": traffic}

    return UpdateStrategy(
        init,
        on_gradients if proximal else unchanged,
        on_weights,
        partial(check_compatible, groups=groups),
        lambda state: {model: (sent, got) for model, (sent, got) in state["traffic"].items()},
    )


def _new_period() -> dict[str, Any]:
    """Return the counters since the last mean: rounds, samples, and (sum, number) of scores."""
    return {"rounds": 0, "samples": {}, "scores": {}}


def _with_round(state: Any, context: RoundContext) -> dict[str, Any]:
    samples, scores = dict(state["samples"]), dict(state["scores"])
    for model, number in context.samples.items():
        samples[model] = samples.get(model, 0) + number
    for model, score in context.scores.items():
        total, count = scores.get(model, (0.0, 0))
        scores[model] = [total + score, count + 1]
    return {**state, "rounds": state["rounds"] + 1, "samples": samples, "scores": scores}


@torch.no_grad()
def _with_proximal_term(
    gradient: Mapping[str, Tensor],
    own: Mapping[str, Tensor],
    common: Mapping[str, Tensor],
    proximal: float,
) -> dict[str, Tensor]:
    """Return gradient + proximal * (own - common), for the parameters that have a gradient."""
    near = _placed({name: common[name] for name in gradient}, like=gradient)
    return {
        name: value + (proximal * (own[name].to(near[name]) - near[name])).to(value)
        for name, value in gradient.items()
    }


def score_weights(scores: Mapping[str, float], temperature: float) -> dict[str, float]:
    """Return softmax(score / temperature) over the models.

    Raises:
        UpdateError: For a score that is not finite.
    """
    _check_scores(scores)
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


SERVER_OPTIMIZERS: Mapping[str, Callable[[Any, list[Parameter]], torch.optim.Optimizer]] = {
    "fedavgm": lambda section, parameters: torch.optim.SGD(
        parameters, lr=section.rate, momentum=section.momentum
    ),
    "diloco": lambda section, parameters: torch.optim.SGD(
        parameters, lr=section.rate, momentum=section.momentum, nesterov=True
    ),
    "fedadam": lambda section, parameters: torch.optim.Adam(
        parameters,
        lr=section.learning_rate,
        betas=(section.beta1, section.beta2),
        eps=section.tau,
    ),
}
"""Name to torch's optimizer of the common weights, from the server's configuration section."""


def server_step(
    server: Any,
    common: Mapping[str, Tensor],
    mean: Mapping[str, Tensor],
    state: Mapping[str, Any] | None,
) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Move the common weights towards the mean by one step of the server optimizer.

    `common - mean` is the gradient (Reddi et al. 2021, alg. 1; Douillard et al. 2023, alg. 1), so
    gradient descent with learning rate 1 gives the mean. Adam is torch's, with bias correction of
    its moments; Reddi et al. have none.

    Args:
        server: Configuration section, see SERVER_OPTIMIZERS.
        common: Common weights after the last average.
        mean: Weighted mean of the models' weights now.
        state: Optimizer state after the last step, or None.

    Returns:
        The new common weights and the new optimizer state.
    """
    parameters = {name: Parameter(own.clone()) for name, own in common.items()}
    optimizer = SERVER_OPTIMIZERS[server.name](server, list(parameters.values()))
    if state is not None:
        own = copy.deepcopy(dict(state))  # the step below changes tensors in place
        optimizer.load_state_dict(fsdp.optimizer_state_like(own, optimizer))
    for name, value in mean.items():
        parameters[name].grad = common[name] - value
    optimizer.step()
    return {name: own.detach() for name, own in parameters.items()}, optimizer.state_dict()


_OWN: Mapping[str, Callable[[Any], UpdateStrategy]] = {
    "asynchronous": lambda section: asynchronous(),
    "synchronized": lambda section: synchronized(section.groups),
    "selective": lambda section: selective(section.fraction, section.patience),
    "federated": lambda section: federated(
        section.weighting,
        section.temperature,
        section.mix,
        section.groups,
        period=section.period,
        proximal=section.proximal,
        server=section.server,
    ),
}
STRATEGIES = PluginTable(
    "core_srl.strategies",
    {name: Plugin(build) for name, build in _OWN.items()}
    | {"population": Plugin("srl_extensions.research.population:build_strategy")},
    ConfigError,
)
"""Name to a function from the `updates` section of a configuration to the strategy."""
