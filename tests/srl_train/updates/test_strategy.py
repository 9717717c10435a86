import json

import pytest
import torch
from pydantic import TypeAdapter
from torch import tensor
from torch.testing import assert_close

from srl_train.config.learning.updates import UpdatesConfig
from srl_train.errors import UpdateError
from srl_train.updates import (
    STRATEGIES,
    RoundContext,
    UpdateStrategy,
    asynchronous,
    chain,
    no_state,
    selective,
    synchronized,
)

MODELS = ("a", "b")
CONTEXT = RoundContext(round=0, step=0, scores={"a": 9.0, "b": 1.0})


def updates_section(**settings):
    return TypeAdapter(UpdatesConfig).validate_python(settings)


def doubled() -> UpdateStrategy:
    """A user's own strategy: twice the gradient, and a count of its calls."""

    def on_gradients(gradients, state, context):
        twice = {
            model: None if own is None else {name: 2 * value for name, value in own.items()}
            for model, own in gradients.items()
        }
        return twice, {"calls": state["calls"] + 1}

    def on_weights(before, after, state, context):
        return after, {"calls": state["calls"] + 100}

    return UpdateStrategy(lambda models: {"calls": 0}, on_gradients, on_weights)


def plus_one() -> UpdateStrategy:
    def both(tensors):
        return {m: {name: value + 1 for name, value in own.items()} for m, own in tensors.items()}

    return UpdateStrategy(
        no_state,
        lambda gradients, state, context: (both(gradients), state),
        lambda before, after, state, context: (both(after), state),
    )


def test_asynchronous_passes_the_very_same_values_on():
    strategy = asynchronous()
    state = strategy.init(MODELS)
    gradients = {"a": {"w": tensor([1.0])}, "b": None}
    assert strategy.on_gradients(gradients, state, CONTEXT) == (gradients, state)
    before, after = {"a": {"w": tensor([0.0])}}, {"a": {"w": tensor([1.0])}}
    taken, _ = strategy.on_weights(before, after, state, CONTEXT)
    assert taken is after


def test_chain_runs_in_order_on_gradients_and_weights():
    values = {"a": {"w": tensor([3.0])}}
    first, then = chain(doubled(), plus_one()), chain(plus_one(), doubled())
    gave, _ = first.on_gradients(values, first.init(("a",)), CONTEXT)
    assert gave["a"]["w"].item() == 7.0  # 2 * 3 + 1
    gave, _ = then.on_gradients(values, then.init(("a",)), CONTEXT)
    assert gave["a"]["w"].item() == 8.0  # 2 * (3 + 1)
    gave, _ = first.on_weights({}, values, first.init(("a",)), CONTEXT)
    assert gave["a"]["w"].item() == 4.0  # only plus_one touches weights


def test_order_matters_between_selective_and_synchronized():
    gradients = {"a": {"w": tensor([1.0])}, "b": {"w": tensor([3.0])}}
    best_only = selective(fraction=0.5)

    everyone_follows = chain(best_only, synchronized())
    gave, _ = everyone_follows.on_gradients(gradients, everyone_follows.init(MODELS), CONTEXT)
    assert (gave["a"]["w"].item(), gave["b"]["w"].item()) == (1.0, 1.0)  # the mean over {a}

    best_gets_mean = chain(synchronized(), best_only)
    gave, _ = best_gets_mean.on_gradients(gradients, best_gets_mean.init(MODELS), CONTEXT)
    assert gave["a"]["w"].item() == 2.0  # (1 + 3) / 2
    assert gave["b"] is None


def test_chained_state_is_kept_apart_and_survives_json():
    strategy = chain(doubled(), chain(selective(patience=1), doubled()))
    state = strategy.init(MODELS)
    gradients = {"a": {"w": tensor([1.0])}, "b": {"w": tensor([3.0])}}
    for _ in range(3):
        state = json.loads(json.dumps(state))
        _, state = strategy.on_gradients(gradients, state, CONTEXT)
    assert state[0] == {"calls": 3}
    assert state[1][1] == {"calls": 3}
    _, later = strategy.on_weights({}, gradients, state, CONTEXT)
    assert (later[0], later[1][1]) == ({"calls": 103}, {"calls": 103})
    assert state[1][0]["waited"] == {"a": 0, "b": 1}  # passed over, overdue, passed over


def test_an_empty_chain_changes_nothing():
    strategy = chain()
    gradients = {"a": {"w": tensor([1.0])}}
    assert strategy.on_gradients(gradients, strategy.init(("a",)), CONTEXT) == (gradients, [])


def test_chain_checks_what_its_members_check():
    unlike = {"a": {"w": tensor([[1.0, 2.0]])}, "b": {"w": tensor([[1.0], [2.0]])}}
    chain(selective(), asynchronous()).check(unlike)
    with pytest.raises(UpdateError, match="a and b cannot be averaged"):
        chain(selective(), synchronized()).check(unlike)


@pytest.mark.parametrize("name", ["synchronized", "asynchronous", "federated", "selective"])
def test_every_named_strategy_builds_from_the_configuration_and_leaves_inputs_alone(name):
    strategy = STRATEGIES[name](updates_section(strategy=name))
    values = {"a": {"w": tensor([1.0, 2.0])}, "b": {"w": tensor([3.0, 5.0])}}
    copies = {model: {"w": own["w"].clone()} for model, own in values.items()}
    state = strategy.init(MODELS)
    gradients, state = strategy.on_gradients(values, state, CONTEXT)
    weights, state = strategy.on_weights(copies, values, state, CONTEXT)
    json.dumps(state)
    for given in (gradients, weights):
        assert list(given) == ["a", "b"]
    assert_close(values, copies, rtol=0, atol=0)


def test_the_table_hands_on_the_settings():
    settings = updates_section(strategy="selective", fraction=1.0)
    gradients = {"a": {"w": tensor([1.0])}, "b": {"w": tensor([3.0])}}
    strategy = STRATEGIES["selective"](settings)
    gave, _ = strategy.on_gradients(gradients, strategy.init(MODELS), CONTEXT)
    assert gave["b"] is not None
    settings = updates_section(strategy="federated", mix=0.0)
    strategy = STRATEGIES["federated"](settings)
    gave, _ = strategy.on_weights(gradients, gradients, strategy.init(MODELS), CONTEXT)
    assert torch.equal(gave["b"]["w"], tensor([3.0]))
