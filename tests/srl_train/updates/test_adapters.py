"""Averages of LoRA adapters in the space of their products."""

import pytest
import torch

from srl_train.config.learning.updates import NesterovServer
from srl_train.errors import ConfigError, UpdateError
from srl_train.updates import RoundContext, federated

A, B = "layer.lora_A.default.weight", "layer.lora_B.default.weight"
RANK, MODELS = 3, "abcd"


def product(own):
    return own[B].double() @ own[A].double()


def mean_product(models, samples):
    return sum(samples[m] * product(own) for m, own in models.items()) / sum(samples.values())


def error(found, expected):
    return float((found - expected).norm() / expected.norm())


def periods(adapters, number, **settings):
    """The relative error of each mean in product space, over periods of two updates of two steps,
    in which every step moves all that the strategy lets move."""
    rng = torch.Generator().manual_seed(0)

    def noise(like):
        return torch.randn(like.shape, generator=rng)

    start = {A: torch.randn(RANK, 7, generator=rng), B: torch.zeros(9, RANK)}
    models = {m: {n: t.clone() for n, t in start.items()} for m in MODELS}
    strategy = federated(adapters=adapters, period=2, **settings)
    strategy.check(models)
    state, errors = strategy.init(MODELS), []
    samples = dict(zip(MODELS, (8, 16, 24, 32), strict=True))
    for update in range(2 * number):
        before = {m: {n: t.clone() for n, t in own.items()} for m, own in models.items()}
        for step in range(2):
            gradients = {m: {n: noise(t) for n, t in own.items()} for m, own in models.items()}
            context = RoundContext(update, step, {}, weights=models.__getitem__)
            applied, state = strategy.on_gradients(gradients, state, context)
            for model, own in applied.items():
                for name, gradient in own.items():
                    models[model][name] -= 0.1 * gradient
        expected = mean_product(models, samples)
        context = RoundContext(update, 0, {}, samples)
        taken, state = strategy.on_weights(before, models, state, context)
        models = {m: {n: t.clone() for n, t in own.items()} for m, own in taken.items()}
        if update % 2:
            errors += [error(product(own), expected) for own in models.values()]
            assert all(torch.equal(own[n], models["a"][n]) for own in models.values() for n in own)
    return errors, models, start


def test_alternating_factors_are_averaged_exactly_and_factors_apart_are_not():
    errors, models, start = periods("alternating", 4)
    assert max(errors) < 1e-6
    for name, tensor in start.items():
        assert not torch.equal(models["a"][name], tensor), "both factors are trained in time"
    assert min(periods("factors", 4)[0][len(MODELS) :]) > 0.01


def test_b_is_trained_first_and_only_what_is_trained_is_sent():
    models = {m: {A: torch.ones(2, 5), B: torch.zeros(4, 2)} for m in "ab"}
    strategy = federated(adapters="alternating")
    state = strategy.init("ab")
    moved = []
    for number in range(3):
        context = RoundContext(number, 0, {}, {"a": 1, "b": 1}, models.__getitem__)
        applied, state = strategy.on_gradients(models, state, context)
        moved.append([*applied["a"]])
        _, state = strategy.on_weights(models, models, state, context)
    assert moved == [[B], [A], [B]]
    assert strategy.traffic(state)["a"] == (2 * 32 + 40, 2 * 32 + 40)  # B, A, B in float32


def test_momentum_of_a_server_leaves_the_shared_factor():
    models = periods("alternating", 1, server=NesterovServer())[1]
    start = periods("alternating", 0)[1]["a"]
    assert torch.equal(models["a"][A], start[A]) and not torch.equal(models["a"][B], start[B])


def test_adapters_that_do_not_begin_equal_are_refused():
    models = {"a": {A: torch.ones(2, 5), B: torch.zeros(4, 2)}}
    models["b"] = {**models["a"], A: torch.zeros(2, 5)}
    strategy = federated(adapters="alternating")
    context = RoundContext(0, 0, {}, weights=models.__getitem__)
    with pytest.raises(UpdateError, match=r"a and b do not begin with the same 'layer\.lora_A"):
        strategy.on_gradients(models, strategy.init("ab"), context)


def test_whole_models_and_a_part_of_the_mean_are_refused():
    with pytest.raises(UpdateError, match="a has no LoRA adapter"):
        federated(adapters="alternating").check({"a": {"w": torch.ones(1)}})
    with pytest.raises(ConfigError, match=r"mix with alternating adapters is 0.5"):
        federated(mix=0.5, adapters="alternating")
