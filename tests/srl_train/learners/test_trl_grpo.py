"""The GRPO learner's gradients are the formula's, and TRL still has the seams we use."""

import dataclasses
import math
from importlib import metadata

import numpy as np
import pytest
import torch

from srl_train.config.run import RunConfig
from srl_train.errors import TrainingError
from tests.srl_train.learners.reference.grpo import (
    END,
    advantages,
    double,
    gradients_of,
    log_probs,
    relative_error,
    sample,
    small_model,
    some_samples,
)
from tests.srl_train.learners.small_learner import EXACT, equal, first_gradients, learner, update


@pytest.mark.parametrize(
    ("loss", "scale"), [("dapo", "group"), ("grpo", "batch"), ("dapo", "none")]
)
def test_the_gradient_is_that_of_the_formula(loss, scale):
    model = small_model()
    exact = double(model)
    samples = some_samples()
    # TRL's "grpo" loss averages over the samples of a minibatch; all eight are in one here.
    one = learner(model, loss=loss, scale_rewards=scale)
    found = first_gradients(one, samples)
    expected, loss_value = gradients_of(exact, samples, advantages(samples, 4, scale), kind=loss)
    assert relative_error(found, expected) < EXACT
    for name in expected:
        assert relative_error({name: found[name]}, {name: expected[name]}) < 3 * EXACT, name
    assert one.end_update()["loss"] == pytest.approx(loss_value, abs=1e-5)


@pytest.mark.parametrize("shift", [0.05, 0.5])
def test_samples_from_older_weights_are_weighed_against_how_they_were_sampled(shift):
    model, samples = moved_samples(shift, version=4)
    exact = double(model)
    old = [torch.tensor(one.logprobs, dtype=torch.float64) for one in samples]
    on_policy, _ = gradients_of(exact, samples, advantages(samples, 4, "group"))
    expected, _ = gradients_of(exact, samples, advantages(samples, 4, "group"), old=old, clip=0.2)

    one = learner(model, clip_range=0.2)
    found = first_gradients(one, samples, version=5)
    assert relative_error(found, expected) < EXACT
    assert relative_error(found, on_policy) > 0.02
    clipped = one.end_update()["clip_ratio/region_mean"]
    assert (clipped > 0) is (shift > 0.2)
    # The same samples at the version they were drawn at: nothing to correct.
    assert relative_error(first_gradients(one, samples, version=4), on_policy) < EXACT


def moved_samples(shift, version=5):
    """(a model, samples whose log-probabilities are its own, moved by `shift` up or down)."""
    model = small_model()
    exact = double(model)
    rng = np.random.default_rng(0)
    samples = []
    for one in some_samples(version=version):
        now = log_probs(exact, one).detach().numpy()
        moved = now + shift * rng.choice([-1.0, 1.0], size=len(now)) * np.array(one.mask)
        samples.append(dataclasses.replace(one, logprobs=tuple(moved.tolist())))
    return model, samples


def test_a_sampler_that_diverges_from_the_trainer_is_refused():
    model, samples = moved_samples(0.05)
    with pytest.raises(TrainingError, match=r"differ by 0\.05 .*max_divergence is 0\.04"):
        first_gradients(learner(model, max_divergence=0.04), samples, version=5)
    broken = [dataclasses.replace(s, logprobs=(math.nan,) * len(s.logprobs)) for s in samples]
    with pytest.raises(TrainingError, match="nan"):
        first_gradients(learner(model, max_divergence=0.04), broken, version=5)


@pytest.mark.parametrize(("correction", "steps"), [("tis", {"num_iterations": 2}), ("mis", {})])
def test_the_loss_of_each_token_is_weighed_by_its_ratio(correction, steps):
    model, samples = moved_samples(0.3)
    exact = double(model)
    cap = 1.2
    one = learner(model, sampler_correction=correction, sampler_cap=cap, **steps)
    found = first_gradients(one, samples, version=5)

    loss, plain = 0.0, 0.0
    for s, advantage in zip(samples, advantages(samples, 4, "group"), strict=True):
        mask, now = torch.tensor(s.mask), log_probs(exact, s)
        apart = (now.detach() - torch.tensor(s.logprobs, dtype=torch.float64)) * mask
        ratio = apart.exp()
        weight = ratio.clamp(max=cap) if correction == "tis" else ratio * (ratio <= cap)
        gain = (now - now.detach()).exp() * advantage * mask
        loss, plain = loss - (weight * gain).sum(), plain - gain.sum()
    names, parameters = zip(*exact.named_parameters(), strict=True)
    tokens = sum(sum(s.mask) for s in samples)
    expected, other = (
        dict(
            zip(
                names, torch.autograd.grad(one / tokens, parameters, retain_graph=True), strict=True
            )
        )
        for one in (loss, plain)
    )
    assert relative_error(found, expected) < EXACT
    assert relative_error(found, other) > 0.02


def test_truncated_answers_are_masked_and_complete_ones_are_trained():
    def played(first, last):  # (10, END) or (10, 11), some words of the environment, another answer
        return (*first, 4, 5, *last)

    whole, cut = (10, END), (10, 11)
    answers = [(cut, whole), (whole, cut), (whole, whole), (cut, cut)]
    samples = [
        dataclasses.replace(
            sample((1, 2), played(*pair), reward, mask=(1, 1, 0, 0, 1, 1)),
            turns=((0, 2), (4, 6)),
        )
        for pair, reward in zip(answers, (1.0, 0.0, 0.5, 2.0), strict=True)
    ]
    by_hand = [
        dataclasses.replace(
            one, mask=tuple(int(end == END) for end in (a[1], a[1], 0, 0, b[1], b[1]))
        )
        for one, (a, b) in zip(samples, answers, strict=True)
    ]
    found = first_gradients(learner(trl={"mask_truncated_completions": True}), samples)
    assert equal(found, first_gradients(learner(), by_hand))
    assert not equal(found, first_gradients(learner(), samples))


@pytest.mark.parametrize("preset", [None, "grpo"])
def test_the_divergence_from_the_start_is_held_by_a_frozen_reference(tmp_path, preset):
    start = tmp_path / "start"
    small_model().save_pretrained(start)
    model = type(small_model()).from_pretrained(start)
    exact = double(model)
    one = learner(model, beta=0.3, trl=RunConfig(preset=preset).algorithm.trl)
    update(one, some_samples())
    moved = double(model)
    assert one.end_update() == {}
    samples = some_samples()
    found = first_gradients(one, samples)

    loss = torch.zeros((), dtype=torch.float64)
    for s, advantage in zip(samples, advantages(samples, 4, "group"), strict=True):
        mask = torch.tensor(s.mask)
        now, then = log_probs(moved, s), log_probs(exact, s).detach()
        divergence = (then - now).exp() - (then - now) - 1  # Schulman's k3
        ratio = (now - now.detach()).exp()
        # TRL's default weighs k3 by the ratio. Shao et al. 2024, eq. 3, has k3 alone.
        divergence = divergence if preset else ratio * divergence
        loss = loss - ((ratio * advantage - 0.3 * divergence) * mask).sum()
    loss = loss / sum(sum(s.mask) for s in samples)
    names, parameters = zip(*moved.named_parameters(), strict=True)
    expected = dict(zip(names, torch.autograd.grad(loss, parameters), strict=True))
    assert relative_error(found, expected) < EXACT


# ---- the seams in TRL ----------------------------------------------------------------------------


def test_trl_is_the_release_whose_seams_were_read():
    assert metadata.version("trl").startswith("1.16."), "read the seams again, then these tests"
