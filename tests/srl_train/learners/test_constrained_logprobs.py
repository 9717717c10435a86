"""Constrained choices: trained on under the distribution they were drawn from."""

import dataclasses

import pytest
import torch
from trl import GRPOTrainer

from srl_train.learners.constrained_logprobs import mask_logits
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
from tests.srl_train.learners.small_learner import EXACT, first_gradients, learner, update

CHOICE, CLOSE = (10, 11, 12), (END,)


def constrained_samples(version=0):
    allowed = (CHOICE, CLOSE, None, None, CHOICE, CLOSE)
    mask = (1, 1, 0, 0, 1, 1)
    completions = [(10, 11, 1.0), (11, 10, 0.0), (12, 12, 3.0), (10, 12, 0.5)]
    return [
        *(
            sample((1, 2), (a, END, 4, 5, b, END), r, mask=mask, allowed=allowed, version=version)
            for a, b, r in completions
        ),
        *(
            sample((3,), (a, END), r, allowed=((a, 13, 14), CLOSE), version=version)
            for a, _, r in completions
        ),
    ]


def test_mask_logits_by_hand():
    logits = torch.arange(12.0).reshape(2, 2, 3)
    masked = mask_logits(logits, [((0, 2), None), ((1,),)])
    low = torch.finfo(torch.float32).min
    expected = torch.tensor(
        [[[0.0, low, 2.0], [3.0, 4.0, 5.0]], [[low, 7.0, low], [9.0, 10.0, 11.0]]]
    )
    assert torch.equal(masked, expected)
    assert torch.equal(logits, torch.arange(12.0).reshape(2, 2, 3)), "the input was changed"
    assert torch.equal(mask_logits(logits, [(), ()]), logits)


def test_a_forced_token_is_certain_and_harmless():
    logits = torch.randn(1, 1, 5, requires_grad=True)
    logps = mask_logits(logits, [((3,),)]).log_softmax(-1)
    assert logps[0, 0, 3] == 0.0
    entropy = -(logps.exp() * logps).sum()
    (logps[0, 0, 3] + entropy).backward()
    assert entropy == 0.0 and not logits.grad.any()


@pytest.mark.parametrize("temperature", [1.0, 0.6])
def test_the_gradient_is_that_of_the_renormalised_choice(temperature):
    model = small_model()
    exact = double(model)
    samples = constrained_samples()
    one = learner(model, replays=True, temperature=temperature)
    found = first_gradients(one, samples)
    scaled = advantages(samples, 4, "group")
    expected, loss = gradients_of(exact, samples, scaled, temperature=temperature)
    assert relative_error(found, expected) < EXACT
    assert one.end_update()["loss"] == pytest.approx(loss, abs=1e-5)
    free = [dataclasses.replace(s, allowed=None) for s in samples]
    assert (
        relative_error(found, gradients_of(exact, free, scaled, temperature=temperature)[0]) > 0.1
    )


def test_old_constrained_samples():
    model = small_model()
    exact = double(model)
    samples = []
    for one in constrained_samples(version=1):
        logprobs = tuple(0.9 * x for x in log_probs(exact, one).tolist())
        samples.append(dataclasses.replace(one, logprobs=logprobs))
    found = first_gradients(learner(model, replays=True), samples, version=2)
    old = [s.logprobs for s in samples]
    scaled = advantages(samples, 4, "group")
    expected, _ = gradients_of(exact, samples, scaled, old=old)
    assert relative_error(found, expected) < EXACT
    assert relative_error(found, gradients_of(exact, samples, scaled)[0]) > 0.02


@pytest.mark.parametrize("minibatches", [1, 2, 4])
def test_every_row_finds_its_own_constraint_after_shuffling(minibatches):
    model = small_model()
    exact = double(model)
    samples = constrained_samples()
    one = learner(model, replays=True, minibatches=minibatches)
    total = None
    for _ in range(one.begin_update(samples, 5, 0)):
        part = {n: g.double() / minibatches for n, g in one.compute_gradients().items()}
        one.apply_gradients(None)
        total = part if total is None else {n: total[n] + part[n] for n in total}
    expected, _ = gradients_of(exact, samples, advantages(samples, 4, "group"))
    assert relative_error(total, expected) < EXACT


def test_free_and_constrained_samples_may_meet():
    model = small_model()
    exact = double(model)
    samples = constrained_samples()[:4] + some_samples()[4:]
    found = first_gradients(learner(model, replays=True), samples)
    expected, _ = gradients_of(exact, samples, advantages(samples, 4, "group"))
    assert relative_error(found, expected) < EXACT


def test_constraints_are_forgotten_with_their_update():
    one = learner(replays=True)
    update(one, constrained_samples())
    found = first_gradients(one, some_samples())
    expected, _ = gradients_of(double(one._trainer.model), some_samples(),
                               advantages(some_samples(), 4, "group"))  # fmt: skip
    assert relative_error(found, expected) < EXACT


def test_where_nothing_is_forbidden_the_numbers_are_trls_own():
    one = learner(replays=True, temperature=0.8)
    trainer = one._trainer
    trainer.allowed = [(), ()]
    ids = torch.tensor([[41, 1, 2, 10, 11, 41], [3, 1, 2, 10, 11, 12]])
    mask = torch.tensor([[0, 1, 1, 1, 1, 0], [1] * 6])
    arguments = (trainer.model, ids, mask, 3)
    with torch.no_grad():
        ours = trainer._get_per_token_logps_and_entropies(*arguments, compute_entropy=True)
        theirs = GRPOTrainer._get_per_token_logps_and_entropies(
            trainer, *arguments, compute_entropy=True
        )
    assert len(ours) == len(theirs) == 3
    real = mask[:, -3:].bool()
    for mine, trls in zip(ours[:2], theirs[:2], strict=True):
        assert mine.shape == trls.shape
        torch.testing.assert_close(mine[real], trls[real], rtol=1e-5, atol=1e-5)
