"""A step of the GRPO learner changes its own model as AdamW says, and nothing else anywhere."""

import math
import random
import weakref

import numpy as np
import pytest
import torch

from srl_train.errors import TrainingError
from srl_train.learners.trl_stepped import isolated_randomness
from tests.srl_extensions.ppo.reference import adapter_model, played, ppo_learner
from tests.srl_train.learners.reference.grpo import (
    advantages,
    double,
    gradients_of,
    log_probs,
    relative_error,
    small_model,
    some_samples,
)
from tests.srl_train.learners.small_learner import (
    EXACT,
    copied,
    equal,
    first_gradients,
    learner,
    optimizer_tensors,
    update,
)


def test_minibatches_are_parts_of_the_whole():
    samples = some_samples()
    whole = first_gradients(learner(), samples)
    one = learner(minibatches=2)
    parts = []
    for _ in range(one.begin_update(samples, 3, 0)):
        parts.append(one.compute_gradients())
        one.apply_gradients(None)
    assert not equal(parts[0], parts[1])
    mean = {name: (parts[0][name].double() + parts[1][name].double()) / 2 for name in whole}
    assert relative_error(whole, mean) < EXACT


def test_a_second_pass_is_weighed_against_the_first():
    model = small_model()
    start = double(model)
    samples = some_samples()
    one = learner(model, num_iterations=2, learning_rate=0.02)
    one.begin_update(samples, 3, 0)
    first = one.compute_gradients()
    scaled = advantages(samples, 4, "group")
    assert relative_error(first, gradients_of(start, samples, scaled)[0]) < EXACT
    one.apply_gradients(first)
    second = one.compute_gradients()
    moved = double(model)
    old = [log_probs(start, s).detach() for s in samples]
    expected, _ = gradients_of(moved, samples, scaled, old=old)
    assert relative_error(second, expected) < EXACT
    assert relative_error(second, gradients_of(moved, samples, scaled)[0]) > 0.05


@pytest.mark.parametrize("limit", [0.01, 1e6])
def test_a_step_is_adamw_on_the_gradient_clipped_once(limit):
    model = small_model()
    names = [n for n, _ in model.named_parameters()]
    own = [p.detach().clone().requires_grad_() for p in model.parameters()]
    adamw = torch.optim.AdamW(own, lr=3e-3, weight_decay=0.1, betas=(0.9, 0.999), eps=1e-8)
    one = learner(model, max_grad_norm=limit, weight_decay=0.1, learning_rate=3e-3)
    for factor in (1.0, 5.0):  # any gradients will do: an average of several models' for one
        gradients = {n: factor * torch.ones_like(p) for n, p in zip(names, own, strict=True)}
        one.apply_gradients(gradients)
        norm = math.sqrt(sum(p.numel() for p in own)) * factor
        for parameter in own:
            parameter.grad = factor * torch.ones_like(parameter) * min(1.0, limit / norm)
        adamw.param_groups[0]["params"] = own
        decayed = {n for n in names if "norm" not in n}
        for n, p in zip(names, own, strict=True):  # transformers decays no norms
            if n not in decayed:
                p.data /= 1 - 3e-3 * 0.1
        adamw.step()
        metrics = one.end_update()
        assert metrics["grad_norm"] == pytest.approx(norm, rel=1e-5)
        assert metrics["learning_rate"] == pytest.approx(3e-3)
    for (name, weight), expected in zip(one.weights().items(), own, strict=True):
        torch.testing.assert_close(weight, expected.detach(), rtol=1e-5, atol=1e-6, msg=name)


def test_without_a_gradient_nothing_changes():
    one = learner()
    update(one, some_samples())  # momentum, which would carry a step with a zero gradient on
    weights, moments, counters = (
        copied(one.weights()),
        optimizer_tensors(one),
        one.state()["counters"],
    )
    one.begin_update(some_samples(), 1, 1)
    one.compute_gradients()
    one.apply_gradients(None)
    one.end_update()
    assert equal(weights, one.weights())
    assert equal(moments, optimizer_tensors(one))
    assert counters == one.state()["counters"]
    one.apply_gradients({name: torch.zeros_like(w) for name, w in weights.items()})
    assert not equal(weights, one.weights()), "the test cannot see momentum"


def test_gradients_of_a_step_are_freed_before_the_next_step():
    one = learner(num_iterations=2)
    compute, earlier = one.compute_gradients, []

    def watched():
        assert not [gradient for known in earlier if (gradient := known()) is not None]
        gradients = compute()
        earlier.extend(map(weakref.ref, gradients.values()))
        return gradients

    one.compute_gradients = watched
    one.learn(some_samples(), 3, 0)
    assert earlier


# ---- failures ------------------------------------------------------------------------------------


def test_samples_that_do_not_divide_are_refused():
    with pytest.raises(TrainingError, match=r"model_0 has 6 samples.*rollout.group_size \(4\)"):
        learner().begin_update(some_samples()[:6], 0, 0)


def test_a_loss_that_is_not_finite_stops_the_run():
    model = small_model()
    one = learner(model)
    with torch.no_grad():
        model.model.embed_tokens.weight[10] = math.nan
    one.begin_update(some_samples(), 0, 0)
    with pytest.raises(
        TrainingError, match=r"model_0: the loss is nan; lower algorithm.learning_rate"
    ):
        one.compute_gradients()


# ---- state and randomness ------------------------------------------------------------------------


def global_generators():
    name, keys, position, *rest = np.random.get_state()
    return (
        random.getstate(),
        (name, keys.tolist(), position, *rest),
        torch.get_rng_state().tolist(),
    )


def test_the_global_generators_are_left_alone():
    random.seed(5)
    np.random.seed(6)
    torch.manual_seed(7)
    before = global_generators()
    one = learner(minibatches=2)
    assert global_generators() == before, "by building"
    update(one, some_samples())
    assert global_generators() == before, "by an update"
    with pytest.raises(ZeroDivisionError), isolated_randomness(3):
        random.random()
        np.random.random()
        torch.rand(1)
        raise ZeroDivisionError
    assert global_generators() == before, "by a failure"


def test_the_schedule_spans_the_planned_updates():
    one = learner(schedule="linear", planned_updates=2, minibatches=2, learning_rate=1.0)
    rates = []
    for _ in range(4):
        one.begin_update(some_samples(), 0, 0)
        one.apply_gradients({n: torch.zeros_like(w) for n, w in one.weights().items()})
        rates.append(one.end_update()["learning_rate"])
    assert rates == pytest.approx([1.0, 0.75, 0.5, 0.25])


@pytest.mark.parametrize("kind", ["grpo", "ppo adapters"])
def test_a_moving_reference_follows_the_model_every_so_many_updates(kind, tmp_path):
    settings = {"beta": 0.1, "reference": "moving", "reference_every": 2}
    if kind == "grpo":  # TRL loads the reference of a whole model from where that came from
        small_model().save_pretrained(tmp_path)
        one = learner(type(small_model()).from_pretrained(tmp_path), **settings)
    else:
        one = ppo_learner(adapter_model(), **settings)
    samples, known = (played() if kind == "ppo adapters" else some_samples()), one.weights().keys()
    held, moved = copied(one.reference()), []
    for version in range(4):
        before = {name: one.weights()[name].clone() for name in held}
        update(one, samples, version)
        if not equal(copied(one.reference()), held):
            held = copied(one.reference())
            assert equal(held, before)  # as the update began
            moved.append(version)
    assert moved == [2] and held.keys() <= known
