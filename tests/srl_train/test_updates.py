"""Update strategies, and the mean of gradients."""

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
    check_compatible,
    synchronized,
    weighted_mean,
)

MODELS = ("a", "b")
CONTEXT = RoundContext(round=0, step=0, scores={"a": 9.0, "b": 1.0})


def updates_section(**settings):
    return TypeAdapter(UpdatesConfig).validate_python(settings)


@pytest.mark.parametrize("name", ["synchronized", "asynchronous", "federated", "selective"])
def test_every_named_strategy_builds_from_the_configuration_and_leaves_inputs_alone(name):
    strategy = STRATEGIES.load(name)(updates_section(strategy=name))
    values = {"a": {"w": tensor([1.0, 2.0])}, "b": {"w": tensor([3.0, 5.0])}}
    copies = {model: {"w": own["w"].clone()} for model, own in values.items()}
    state = strategy.init(MODELS)
    gradients, state = strategy.on_gradients(values, state, CONTEXT)
    weights, state = strategy.on_weights(copies, values, state, CONTEXT)
    json.dumps(state)
    for given in (gradients, weights):
        assert list(given) == ["a", "b"]
    assert_close(values, copies, rtol=0, atol=0)


def combined(gradients, groups=()):
    strategy = synchronized(groups)
    given, _ = strategy.on_gradients(gradients, strategy.init(tuple(gradients)), CONTEXT)
    return given


def test_mean_of_three_by_hand():
    given = combined(
        {
            "a": {"w": tensor([1.0, 0.0]), "b": tensor(3.0)},
            "b": {"w": tensor([2.0, 4.0]), "b": tensor(0.0)},
            "c": {"w": tensor([6.0, -1.0]), "b": tensor(-9.0)},
        }
    )
    for model in "abc":
        assert_close(given[model]["w"], tensor([3.0, 1.0]))  # 9/3, 3/3
        assert_close(given[model]["b"], tensor(-2.0))  # -6/3


def test_a_model_without_a_gradient_is_left_out_of_the_mean_and_still_applies_it():
    given = combined({"a": {"w": tensor([1.0])}, "b": None, "c": {"w": tensor([4.0])}})
    assert [given[model]["w"].item() for model in "abc"] == [2.5, 2.5, 2.5]


def test_half_precision_is_averaged_in_single_precision():
    # In bfloat16 256 + 1 is 256, and the mean would be 64.
    ones = {model: {"w": tensor([1.0], dtype=torch.bfloat16)} for model in "bcde"}
    given = combined({"a": {"w": tensor([256.0], dtype=torch.bfloat16)}, **ones})
    assert given["a"]["w"].dtype is torch.bfloat16
    assert given["a"]["w"].item() == 52.0  # 260 / 5


def test_the_order_of_models_does_not_change_a_bit():
    torch.manual_seed(0)
    gradients = {f"model_{i}": {"w": torch.randn(1000)} for i in range(5)}
    backwards = dict(reversed(gradients.items()))
    one, other = combined(gradients), combined(backwards)
    assert torch.equal(one["model_0"]["w"], other["model_0"]["w"])
    ones = dict.fromkeys(gradients, 1.0)
    assert torch.equal(weighted_mean(gradients, ones)["w"], weighted_mean(backwards, ones)["w"])


def test_averages_are_within_groups_and_other_models_are_unchanged():
    gradients = {
        model: {"w": tensor([value])}
        for model, value in zip("abcd", (1.0, 3.0, 10.0, 20.0), strict=True)
    }
    given = combined(gradients, groups=(("a", "b"), ("c",)))
    assert [given[model]["w"].item() for model in "abcd"] == [2.0, 2.0, 10.0, 20.0]
    strategy = synchronized((("a", "b"), ("c",)))
    given, _ = strategy.on_gradients({"b": {"w": tensor([3.0])}}, {}, CONTEXT)  # only b steps
    assert given["b"]["w"].item() == 3.0


@pytest.mark.parametrize(
    ("groups", "message"),
    [
        ((("a", "model_9"),), "groups must name a, b, got 'model_9'"),
        ((("a", "b"), ("b",)), "'b' is in 2 groups: a model can be averaged in one only"),
    ],
)
def test_impossible_groups_are_refused_before_training(groups, message):
    with pytest.raises(UpdateError, match=message):
        synchronized(groups).init(("a", "b"))


def test_models_that_differ_are_named_with_the_first_mismatch():
    shapes = {
        "a": {"head": torch.zeros(4, 2), "tail": torch.zeros(3)},
        "b": {"head": torch.zeros(4, 2), "tail": torch.zeros(5)},
        "c": {"head": torch.zeros(4, 2)},
    }
    with pytest.raises(UpdateError, match=r"a and b .*'tail' has shape \[3\] in a and \[5\] in b"):
        synchronized().check(shapes)
    with pytest.raises(UpdateError, match=r"a and c .*'tail' has shape \[3\] in a and None in c"):
        synchronized((("c", "a"), ("b",))).check(shapes)
    with pytest.raises(UpdateError, match=r"'tail' has shape None in c and \[5\] in d"):
        check_compatible({"c": shapes["c"], "d": shapes["b"]})
    synchronized((("a",), ("b",), ("c",))).check(shapes)
    with pytest.raises(UpdateError, match="a and b"):
        combined({"a": {"w": tensor([1.0])}, "b": {"w": tensor([1.0, 2.0])}})
