"""Federated averaging and server optimizers against hand-worked numbers."""

import copy
import math

import pytest
import torch
from torch import tensor
from torch.testing import assert_close

from srl_train.config.learning.updates import ServerConfig
from srl_train.errors import UpdateError
from srl_train.updates import RoundContext, federated
from tests.srl_train.run_state import same


def met(after, samples, **settings):
    """Return the weights after a mean; models start at 0."""
    strategy = federated(**settings)
    before = {model: own and {n: v * 0 for n, v in own.items()} for model, own in after.items()}
    context = RoundContext(round=0, step=0, scores={}, samples=samples)
    taken, _ = strategy.on_weights(before, after, strategy.init(tuple(after)), context)
    return taken


def test_weighted_mean_by_hand():
    # 3/4 * 4 + 1/4 * 8 = 5,  3/4 * 0 + 1/4 * -4 = -1
    after = {"a": {"w": tensor([4.0, 0.0])}, "b": {"w": tensor([8.0, -4.0])}}
    taken = met(after, {"a": 48, "b": 16})
    assert_close(taken["a"]["w"], tensor([5.0, -1.0]))
    assert torch.equal(taken["a"]["w"], taken["b"]["w"])
    half = met(after, {"a": 48, "b": 16}, mix=0.5)
    assert_close(half["a"]["w"], tensor([4.5, -0.5]))  # (5 + 4) / 2, (-1 + 0) / 2
    assert_close(half["b"]["w"], tensor([6.5, -2.5]))  # (5 + 8) / 2, (-1 - 4) / 2


def test_nan_of_a_model_with_weight_zero_does_not_reach_the_mean():
    taken = met({"a": {"w": tensor([4.0])}, "b": {"w": tensor([math.nan])}}, {"a": 8})
    assert (taken["a"]["w"].item(), taken["b"]["w"].item()) == (4.0, 4.0)


def test_models_with_different_parameters_are_refused():
    with pytest.raises(UpdateError, match="a and b cannot be averaged"):
        met({"a": {"w": tensor([4.0])}, "b": {"v": tensor([8.0])}}, {"a": 1, "b": 1})


def rounds_of(strategy, rounds, models="ab"):
    """Return the weights after each round, from weights of 0.

    `rounds` are ({model: change of its weight}, {model: number of samples}) of each round.
    """
    weights = {model: {"w": tensor([0.0])} for model in models}
    state, found = strategy.init(models), []
    for number, (added, samples) in enumerate(rounds):
        after = {model: {"w": own["w"] + added[model]} for model, own in weights.items()}
        context = RoundContext(number, 0, {}, samples)
        weights, state = strategy.on_weights(weights, after, state, context)
        found.append({model: own["w"].item() for model, own in weights.items()})
    return found, state


def test_weights_are_averaged_after_a_period_by_all_its_samples():
    found, state = rounds_of(
        federated(period=3),
        [
            ({"a": 1.0, "b": 8.0}, {"a": 10, "b": 30}),
            ({"a": 1.0, "b": 0.0}, {"a": 20}),
            ({"a": 2.0, "b": 0.0}, {"b": 20}),
            ({"a": 1.0, "b": 0.0}, {"a": 8, "b": 8}),
        ],
    )
    # (30 * 4 + 50 * 8) / 80 = 6.5, where the last round's samples alone would make it b's 8
    assert found[:2] == [{"a": 1.0, "b": 8.0}, {"a": 2.0, "b": 8.0}]
    assert found[2:] == [{"a": 6.5, "b": 6.5}, {"a": 7.5, "b": 6.5}]
    assert (state["rounds"], state["samples"]) == (1, {"a": 8, "b": 8})


def test_the_end_of_a_stage_ends_a_period():
    strategy, weights = federated(period=9), {"a": {"w": tensor([4.0])}, "b": {"w": tensor([8.0])}}
    context = RoundContext(0, 0, {}, {"a": 1, "b": 1}, closing=True)
    taken, _ = strategy.on_weights(weights, weights, strategy.init("ab"), context)
    assert taken["a"]["w"].item() == 6.0


def test_traffic_is_the_size_of_the_tensors_at_each_mean():
    values = {"w": torch.zeros(3, 5), "half": torch.zeros(7, dtype=torch.bfloat16)}
    weights = {model: dict(values) for model in "abc"}
    strategy = federated(period=2)
    state = strategy.init("abc")
    seen = []
    for number in range(4):
        context = RoundContext(number, 0, {}, {"a": 1, "b": 1})  # c has nothing to send
        _, state = strategy.on_weights(weights, weights, state, context)
        seen.append(strategy.traffic(state))
    size = 3 * 5 * 4 + 7 * 2
    assert seen[0] == dict.fromkeys("abc", 0)
    assert seen[1] == seen[2] == {"a": 2 * size, "b": 2 * size, "c": size}
    assert seen[3] == {"a": 4 * size, "b": 4 * size, "c": 2 * size}


WAYS = ([0.5, -2.0, 0.01], [0.25, 1.0, 0.02], [-1.0, 1.0, 0.0])
"""Common weights less the mean, of three periods."""


def fedavgm(x, ways, lr=0.5, beta=0.8):
    """Reddi et al. 2021, sec. 2: momentum v of the ways, x steps against it."""
    v, course = torch.zeros(3), []
    for way in ways:
        v = beta * v + way
        x = x - lr * v
        course.append(x)
    return course


def diloco(x, ways, lr=0.7, beta=0.9):
    """Nesterov's momentum as Sutskever et al. 2013 write it for descent, which DiLoCo takes."""
    v, course = torch.zeros(3), []
    for way in ways:
        v = beta * v + way
        x = x - lr * (way + beta * v)
        course.append(x)
    return course


SERVERS = {
    "fedavgm": (ServerConfig(name="fedavgm", learning_rate=0.5, momentum=0.8), fedavgm),
    "diloco": (ServerConfig(), diloco),
}


@pytest.mark.parametrize("name", sorted(SERVERS))
def test_server_optimizers_match_the_papers(name):
    server, paper = SERVERS[name]
    strategy = federated(server=server)
    start = torch.tensor([1.0, 2.0, 3.0])
    ways = [torch.tensor(way) for way in WAYS]
    weights, state = {model: {"w": start.clone()} for model in "ab"}, strategy.init("ab")
    for way, expected in zip(ways, paper(start, ways), strict=True):
        common = weights["a"]["w"]
        # One model goes twice as far as the mean, and the other stays.
        after = {"a": {"w": common - 2 * way}, "b": {"w": common.clone()}}
        held = copy.deepcopy(state)
        context = RoundContext(0, 0, {}, {"a": 8, "b": 8})
        given, (weights, new) = state, strategy.on_weights(weights, after, state, context)
        assert same(given, held), "the state that was given has changed"
        state = new
        assert same(weights["a"], weights["b"])
        assert_close(weights["a"]["w"], expected)


def test_each_group_has_its_momentum():
    strategy = federated(server=ServerConfig(), groups=(("a", "b"), ("c",)))
    weights = {model: {"w": torch.ones(1)} for model in "abc"}
    after = {**{m: {"w": torch.zeros(1)} for m in "ab"}, "c": {"w": torch.ones(1)}}
    context = RoundContext(0, 0, {}, dict.fromkeys("abc", 1))
    taken, _ = strategy.on_weights(weights, after, strategy.init("abc"), context)
    assert taken["a"]["w"].item() == pytest.approx(1.0 - 0.7 * 1.9)
    assert taken["c"]["w"].item() == 1.0
