"""Federated averaging, FedProx and server optimizers against hand-worked numbers."""

import copy
import math

import pytest
import torch
from torch import tensor
from torch.testing import assert_close

from srl_train.config.learning.updates import AdamServer, MomentumServer
from srl_train.errors import ConfigError, UpdateError
from srl_train.updates import RoundContext, federated, score_weights
from tests.srl_train.run_state import same

LN3 = math.log(3.0)


def met(after, scores, **settings):
    strategy = federated("scores", **{"temperature": 1.0, **settings})
    before = {model: own and {n: v * 0 for n, v in own.items()} for model, own in after.items()}
    context = RoundContext(round=0, step=0, scores=scores)
    taken, _ = strategy.on_weights(before, after, strategy.init(tuple(after)), context)
    return taken


def test_weighted_mean_by_hand():
    # softmax of (ln 3, 0) is (3/4, 1/4):  3/4 * 4 + 1/4 * 8 = 5,  3/4 * 0 + 1/4 * -4 = -1
    taken = met(
        {"a": {"w": tensor([4.0, 0.0])}, "b": {"w": tensor([8.0, -4.0])}}, {"a": LN3, "b": 0.0}
    )
    assert_close(taken["a"]["w"], tensor([5.0, -1.0]))
    assert torch.equal(taken["a"]["w"], taken["b"]["w"])


def test_temperature_divides_the_scores_and_mix_keeps_a_part():
    # scores 2 ln 3 and 0 at temperature 2: again 3/4 and 1/4, mean 5; half of it, half own
    taken = met(
        {"a": {"w": tensor([4.0])}, "b": {"w": tensor([8.0])}},
        {"a": 2 * LN3, "b": 0.0},
        temperature=2.0,
        mix=0.5,
    )
    assert_close(taken["a"]["w"], tensor([4.5]))  # (5 + 4) / 2
    assert_close(taken["b"]["w"], tensor([6.5]))  # (5 + 8) / 2


def test_a_model_of_no_weight_cannot_spoil_the_mean():
    # exp(-1000 / 0.1) is 0 in floats, and 0 * NaN would be NaN
    taken = met(
        {"a": {"w": tensor([4.0])}, "b": {"w": tensor([math.nan])}},
        {"a": 1000.0, "b": 0.0},
        temperature=0.1,
    )
    assert (taken["a"]["w"].item(), taken["b"]["w"].item()) == (4.0, 4.0)


def test_groups_are_averaged_apart():
    after = {
        model: {"w": tensor([value])}
        for model, value in zip("abcd", (1.0, 3.0, 10.0, 20.0), strict=True)
    }
    scores = dict.fromkeys("abcd", 0.0)
    taken = met(after, scores, groups=(("a", "b"), ("c", "d")))
    assert [taken[model]["w"].item() for model in "abcd"] == [2.0, 2.0, 15.0, 15.0]


def test_score_weights_by_hand_and_at_extremes():
    assert score_weights({"a": LN3, "b": 0.0}, 1.0) == pytest.approx({"a": 0.75, "b": 0.25})
    assert score_weights({"a": 1e6, "b": 1e6}, 1e-3) == {"a": 0.5, "b": 0.5}
    assert score_weights({"a": -1e9, "b": 1e9}, 1e-3) == {"a": 0.0, "b": 1.0}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"temperature": 0.0}, "federated temperature is 0.0: give more than 0"),
        ({"mix": 1.5}, "federated mix is 1.5"),
    ],
)
def test_settings_out_of_bounds_are_refused(settings, message):
    with pytest.raises(ConfigError, match=message):
        federated(**settings)


def test_scores_must_be_finite_and_models_alike():
    after = {"a": {"w": tensor([4.0])}, "b": {"w": tensor([8.0])}}
    with pytest.raises(UpdateError, match="score of b must be finite, got nan"):
        met(after, {"a": 1.0, "b": math.nan})
    with pytest.raises(UpdateError, match="a and b cannot be averaged"):
        met({"a": {"w": tensor([4.0])}, "b": {"v": tensor([8.0])}}, {"a": 1.0, "b": 1.0})


def rounds_of(strategy, rounds, models="ab"):
    """What the models have after each round, in which they add what `rounds` says to a weight of 0:
    ({model: what it adds}, {model: its samples}) of each."""
    weights = {model: {"w": tensor([0.0])} for model in models}
    state, found = strategy.init(models), []
    for number, (added, samples) in enumerate(rounds):
        after = {model: {"w": own["w"] + added[model]} for model, own in weights.items()}
        context = RoundContext(number, 0, {}, samples)
        weights, state = strategy.on_weights(weights, after, state, context)
        found.append({model: own["w"].item() for model, own in weights.items()})
    return found, state


def test_models_are_apart_for_a_period_and_weighed_by_all_samples_since():
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


def test_scores_of_a_period_count_as_one_in_standard_errors():
    strategy = federated("scores", temperature=1.0, period=4)
    weights = {"a": {"w": tensor([4.0])}, "b": {"w": tensor([8.0])}}
    state = strategy.init("ab")
    for number in range(4):
        context = RoundContext(number, 0, {"a": LN3 / 2, "b": 0.0})
        taken, state = strategy.on_weights(weights, weights, state, context)
    # 4 * ln 3 / 2 / sqrt(4) = ln 3: weights of 3/4 and 1/4
    assert_close(taken["a"]["w"], tensor([5.0]))


def test_the_end_of_a_stage_ends_a_period():
    strategy, weights = federated(period=9), {"a": {"w": tensor([4.0])}, "b": {"w": tensor([8.0])}}
    context = RoundContext(0, 0, {}, {"a": 1, "b": 1}, closing=True)
    taken, _ = strategy.on_weights(weights, weights, strategy.init("ab"), context)
    assert taken["a"]["w"].item() == 6.0


def test_bytes_are_those_of_the_tensors_up_and_down_at_each_mean():
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
    assert seen[0] == dict.fromkeys("abc", (0, 0))
    assert seen[1] == seen[2] == {"a": (size, size), "b": (size, size), "c": (0, size)}
    assert seen[3] == {"a": (2 * size, 2 * size), "b": (2 * size, 2 * size), "c": (0, 2 * size)}


def test_the_proximal_term_is_the_gradient_of_the_loss_that_fedprox_writes():
    """Against torch's own gradient of loss + mu / 2 * |w - common|^2, over two periods."""
    mu, rate = 0.3, 0.1
    strategy = federated(proximal=mu, period=2)
    start = torch.linspace(-1.0, 1.0, 6).reshape(2, 3)
    weights = {"a": {"w": start.clone()}, "b": {"w": start.clone()}}
    aims = {"a": torch.full((2, 3), 2.0), "b": torch.arange(6.0).reshape(2, 3)}
    state, common = strategy.init("ab"), start.clone()

    def loss(model, w):
        return ((w - aims[model]) ** 3).sum()

    for number in range(4):
        before = {model: {"w": own["w"].clone()} for model, own in weights.items()}
        for step in range(2):
            plain, expected = {}, {}
            for model, own in weights.items():
                w = own["w"].clone().requires_grad_()
                [plain_gradient] = torch.autograd.grad(loss(model, w), w)
                held = loss(model, w) + mu / 2 * ((w - common) ** 2).sum()
                [expected[model]] = torch.autograd.grad(held, w)
                plain[model] = {"w": plain_gradient}
            context = RoundContext(number, step, {}, weights=weights.__getitem__)
            applied, state = strategy.on_gradients(plain, state, context)
            for model, own in applied.items():
                assert_close(own["w"], expected[model], rtol=1e-6, atol=1e-6)
                weights[model]["w"] -= rate * 0.1 * own["w"].clamp(-1, 1)
        samples = RoundContext(number, 0, {}, {"a": 1, "b": 1})
        weights, state = strategy.on_weights(before, weights, state, samples)
        weights = {model: dict(own) for model, own in weights.items()}
        if number % 2:
            common = weights["a"]["w"].clone()


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


def test_momentum_of_a_group_is_its_own():
    strategy = federated(server=MomentumServer(name="diloco"), groups=(("a", "b"), ("c",)))
    weights = {model: {"w": torch.ones(1)} for model in "abc"}
    after = {**{m: {"w": torch.zeros(1)} for m in "ab"}, "c": {"w": torch.ones(1)}}
    context = RoundContext(0, 0, {}, dict.fromkeys("abc", 1))
    taken, _ = strategy.on_weights(weights, after, strategy.init("abc"), context)
    assert taken["a"]["w"].item() == pytest.approx(1.0 - 0.7 * 1.9)
    assert taken["c"]["w"].item() == 1.0
