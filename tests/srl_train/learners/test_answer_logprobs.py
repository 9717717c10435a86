"""Log-probabilities at the places of chosen tokens, under the distribution they were drawn from."""

import dataclasses

import pytest
import torch
from peft import LoraConfig, get_peft_model
from transformers import (
    CohereConfig,
    CohereForCausalLM,
    Gemma2Config,
    Gemma2ForCausalLM,
)

from srl_train.learners.upstream_warnings import quiet_upstream
from tests.srl_train.learners.reference.grpo import (
    END,
    PAD,
    WORDS,
    advantages,
    double,
    gradients_of,
    relative_error,
    sample,
    small_model,
    some_samples,
)
from tests.srl_train.learners.small_learner import EXACT, first_gradients, learner

CHOICE, CLOSE = (10, 11, 12), (END,)
SMALL = {
    "vocab_size": WORDS + 2,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "max_position_embeddings": 64,
    "initializer_range": 0.25,
    "bos_token_id": None,
    "eos_token_id": END,
    "pad_token_id": PAD,
}


def made(kind, config, **settings):
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return kind(config(**{**SMALL, **settings})).eval()


def adapted(*modules):
    config = LoraConfig(task_type="CAUSAL_LM", r=2, target_modules=list(modules))
    with quiet_upstream():
        return get_peft_model(small_model(), config)


MODELS = {
    "plain": small_model,
    "softcapped": lambda: made(
        Gemma2ForCausalLM, Gemma2Config, final_logit_softcapping=2.0, head_dim=8
    ),
    "multiplied": lambda: made(CohereForCausalLM, CohereConfig, logit_scale=0.3),
    "adapters": lambda: adapted("q_proj", "up_proj"),
}


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


def batch_of(samples):
    """(input_ids, attention_mask, T): prompts padded on the left, completions on the right."""
    before = max(len(s.prompt_ids) for s in samples)
    after = max(len(s.completion_ids) for s in samples)
    ids = torch.full((len(samples), before + after), PAD)
    seen = torch.zeros_like(ids)
    for row, s in enumerate(samples):
        span = slice(before - len(s.prompt_ids), before + len(s.completion_ids))
        ids[row, span] = torch.tensor(s.prompt_ids + s.completion_ids)
        seen[row, span] = 1
    return ids, seen, after


def own_places(samples, length):
    mask = torch.zeros(len(samples), length, dtype=torch.bool)
    for row, s in enumerate(samples):
        mask[row, : len(s.mask)] = torch.tensor(s.mask, dtype=torch.bool)
    return mask


def full_log_probs(model, samples, temperature):
    """(log-probabilities, entropies) from the logits of all places and the whole vocabulary."""
    ids, seen, length = batch_of(samples)
    logits = model(input_ids=ids, attention_mask=seen).logits[:, -length - 1 : -1] / temperature
    barred = torch.zeros_like(logits)
    for row, s in enumerate(samples):
        for place, legal in enumerate(s.allowed or ()):
            if legal is not None:
                barred[row, place] = -1e9
                barred[row, place, list(legal)] = 0.0
    logps = (logits + barred).log_softmax(-1)
    entropies = -(logps.exp() * logps).sum(-1)
    return logps.gather(-1, ids[:, -length:, None])[..., 0], entropies


SAMPLES = {
    "free": some_samples,
    "both": lambda: constrained_samples()[:4] + some_samples()[4:],
}


@pytest.mark.parametrize(
    ("kind", "played"),
    [("plain", "free"), *((k, "both") for k in MODELS)],
)
def test_log_probabilities_equal_those_of_a_plain_forward_pass(kind, played):
    model, samples = MODELS[kind](), SAMPLES[played]()
    trainer = learner(model, temperature=0.8)._trainer
    trainer.samples = samples
    ids, seen, length = batch_of(samples)
    own = own_places(samples, length)
    logps, entropies, _ = trainer._get_per_token_logps_and_entropies(
        model, ids, seen, length, compute_entropy=True
    )
    expected, all_entropies = full_log_probs(model, samples, 0.8)
    torch.testing.assert_close(logps[own], expected[own], rtol=1e-5, atol=2e-6)
    torch.testing.assert_close(entropies[own], all_entropies[own], rtol=1e-5, atol=2e-6)
    assert not logps[~own].any() and not entropies[~own].any()

    weights = torch.linspace(-1.0, 2.0, own.sum())
    parameters = {n: p for n, p in model.named_parameters() if p.requires_grad}
    found, full = (
        dict(zip(parameters, torch.autograd.grad(loss, list(parameters.values())), strict=True))
        for loss in (
            (weights * (logps[own] + 0.3 * entropies[own])).sum(),
            (weights * (expected[own] + 0.3 * all_entropies[own])).sum(),
        )
    )
    assert relative_error(found, {n: g.double() for n, g in full.items()}) < 1e-6
    assert not any("forward" in vars(m) for m in model.modules() if isinstance(m, torch.nn.Linear))


def test_a_forced_token_has_log_probability_zero_and_no_gradient():
    model = small_model()
    trainer = learner(model)._trainer
    trainer.samples = [sample((1, 2), (3, 4), 0.0, mask=(1, 1), allowed=((3,), (4, 5)))]
    ids = torch.tensor([[1, 2, 3, 4]])
    logps, entropies, _ = trainer._get_per_token_logps_and_entropies(
        model, ids, torch.ones_like(ids), 2, compute_entropy=True
    )
    assert logps[0, 0] == 0.0 and entropies[0, 0] == 0.0
    (logps[0, 0] + 2 * entropies[0, 0]).backward()
    assert not any(p.grad.any() for p in model.parameters())


def test_the_gradient_is_that_of_the_renormalised_choice():
    temperature = 0.6
    model = small_model()
    exact = double(model)
    samples = constrained_samples()
    one = learner(model, temperature=temperature)
    found = first_gradients(one, samples)
    scaled = advantages(samples, 4, "group")
    expected, loss = gradients_of(exact, samples, scaled, temperature=temperature)
    assert relative_error(found, expected) < EXACT
    assert one.end_update()["loss"] == pytest.approx(loss, abs=1e-5)
    free = [dataclasses.replace(s, allowed=None) for s in samples]
    assert (
        relative_error(found, gradients_of(exact, free, scaled, temperature=temperature)[0]) > 0.1
    )
