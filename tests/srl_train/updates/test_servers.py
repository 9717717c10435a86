"""Server optimizers against the papers' own lines, written out."""

import copy

import pytest
import torch
from torch.testing import assert_close

from srl_train.config.learning.updates import AdamServer, MomentumServer
from srl_train.updates import RoundContext, federated
from tests.srl_train.engine.run_state import same

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


def fedadam(x, ways, lr=0.1, beta1=0.9, beta2=0.99, tau=1e-3):
    """Reddi et al. 2021, alg. 2, the moments' bias corrected as by Kingma & Ba 2015, alg. 1."""
    m, v, course = torch.zeros(3), torch.zeros(3), []
    for t, way in enumerate(ways, start=1):
        m = beta1 * m + (1 - beta1) * way
        v = beta2 * v + (1 - beta2) * way**2
        x = x - lr * (m / (1 - beta1**t)) / ((v / (1 - beta2**t)).sqrt() + tau)
        course.append(x)
    return course


SERVERS = {
    "fedavgm": (MomentumServer(learning_rate=0.5, momentum=0.8), fedavgm),
    "diloco": (MomentumServer(name="diloco"), diloco),
    "fedadam": (AdamServer(learning_rate=0.1), fedadam),
}


@pytest.mark.parametrize("name", sorted(SERVERS))
def test_common_weights_take_the_papers_course(name):
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


def test_momentum_of_a_group_is_its_own():
    strategy = federated(server=MomentumServer(name="diloco"), groups=(("a", "b"), ("c",)))
    weights = {model: {"w": torch.ones(1)} for model in "abc"}
    after = {**{m: {"w": torch.zeros(1)} for m in "ab"}, "c": {"w": torch.ones(1)}}
    context = RoundContext(0, 0, {}, dict.fromkeys("abc", 1))
    taken, _ = strategy.on_weights(weights, after, strategy.init("abc"), context)
    assert taken["a"]["w"].item() == pytest.approx(1.0 - 0.7 * 1.9)
    assert taken["c"]["w"].item() == 1.0
