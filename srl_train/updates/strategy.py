"""Protocol of update strategies: pure functions on all models' updates, with explicit state.

A strategy turns what every model computed into what each may apply. It never sees a trainer, an
optimizer or a device, and it changes none of its inputs in place. Its state is plain data
(mappings, lists, numbers, text, tensors), so that a checkpoint can hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from torch import Tensor

from srl_train.errors import UpdateError

Tensors = Mapping[str, Mapping[str, Tensor] | None]
"""Model -> parameter name -> tensor. None for a model that has nothing, or must not update:
never zeros, because AdamW moves on a zero gradient and 0 * NaN is NaN."""

Parameters = Mapping[str, Mapping[str, Tensor]]
"""Model -> parameter name -> its tensor."""


Traffic = Mapping[str, tuple[int, int]]
"""Model -> (bytes it sent, bytes it received), so far."""


def _no_weights(model: str) -> Mapping[str, Tensor]:
    raise UpdateError(f"the weights of {model} are asked for outside an optimizer step")


class Copy(NamedTuple):
    """How a model goes on from another."""

    source: str
    """The model whose weights, optimizer state and hyper-parameters it takes."""
    factors: Mapping[str, float]
    """Hyper-parameter -> what it is multiplied by then (Learner.scale)."""


class RoundContext(NamedTuple):
    """Where in a run a strategy is called."""

    round: int
    """From 0."""
    step: int
    """Optimizer step within the round, from 0."""
    scores: Mapping[str, float]
    """Model -> by how many standard errors its raw returns of this round lie above those of like
    agents (srl_train.updates.scores), higher is better; only models that played."""
    samples: Mapping[str, int] = MappingProxyType({})
    """Model -> the number of samples that it trains on now."""
    weights: Callable[[str], Mapping[str, Tensor]] = _no_weights
    """At an optimizer step: model -> its weights as they are, by parameter name."""
    closing: bool = False
    """Whether this is the last update of a stage before the rounds."""
    returns: Mapping[str, Sequence[float]] = MappingProxyType({})
    """Model -> for each start from which it played this round, what it earned above the mean of
    like agents (srl_train.updates.scores)."""
    seed: int = 0
    """The run's."""


def no_state(models: Sequence[str]) -> dict[str, Any]:
    """The state of a strategy that remembers nothing."""
    return {}


def unchanged(*arguments: Any) -> tuple[Any, Any]:
    """The newest tensors and the state as they came: `on_gradients` or `on_weights` of a strategy
    that leaves that moment alone.
    """
    *_, tensors, state, _context = arguments
    return tensors, state


def any_models(parameters: Parameters) -> None:
    """Accept every set of models: `check` of a strategy that averages nothing."""


def no_copies(state: Any, context: RoundContext) -> tuple[Mapping[str, Copy], Any]:
    """`exchange` of a strategy under which no model goes on from another."""
    return {}, state


def no_traffic(state: Any) -> Traffic:
    """`traffic` of a strategy that does not count what models send each other."""
    return {}


class UpdateStrategy(NamedTuple):
    """Six functions; most strategies need `init` and one of the others."""

    init: Callable[[Sequence[str]], Any]
    """Names of the models -> the first state."""
    on_gradients: Callable[[Tensors, Any, RoundContext], tuple[Tensors, Any]] = unchanged
    """(gradients, state, context) -> (what each model applies, state); every optimizer step."""
    on_weights: Callable[[Tensors, Tensors, Any, RoundContext], tuple[Tensors, Any]] = unchanged
    """(weights before the update, after it, state, context) -> (weights to take, state); of all
    models, also of those that learned nothing in this update."""
    check: Callable[[Parameters], None] = any_models
    """Raises UpdateError, before training starts, if these models cannot be updated so."""
    traffic: Callable[[Any], Traffic] = no_traffic
    """State -> what the models would have sent over a network between them so far."""
    exchange: Callable[[Any, RoundContext], tuple[Mapping[str, Copy], Any]] = no_copies
    """(state, context) -> (model -> how it goes on from another, as that one is now; state); once a
    round, after its updates."""


def chain(*strategies: UpdateStrategy) -> UpdateStrategy:
    """The strategies one after another: each gets what the one before it gave.

    Order matters. `chain(selective(), synchronized())` has every model apply the mean of the
    selected models' gradients; `chain(synchronized(), selective())` has the selected models apply
    the mean of everyone's. All `on_weights` get the same weights from before the round.
    """

    def init(models: Sequence[str]) -> list[Any]:
        return [strategy.init(models) for strategy in strategies]

    def on_gradients(
        gradients: Tensors, states: Any, context: RoundContext
    ) -> tuple[Tensors, list[Any]]:
        after = []
        for strategy, state in zip(strategies, states, strict=True):
            gradients, state = strategy.on_gradients(gradients, state, context)
            after.append(state)
        return gradients, after

    def on_weights(
        before: Tensors, weights: Tensors, states: Any, context: RoundContext
    ) -> tuple[Tensors, list[Any]]:
        after = []
        for strategy, state in zip(strategies, states, strict=True):
            weights, state = strategy.on_weights(before, weights, state, context)
            after.append(state)
        return weights, after

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
        init, on_gradients, on_weights, check, traffic, exchange if exchanges else no_copies
    )
