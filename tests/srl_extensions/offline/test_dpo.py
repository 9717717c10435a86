"""The DPO learner's gradients are the formula's, and TRL still has the seams we use."""

from dataclasses import replace

import pytest
import torch
from tokenizers import pre_tokenizers

from srl_extensions.offline.config import DpoConfig
from srl_extensions.offline.data import Preference
from srl_extensions.offline.learners import DpoLearner
from srl_train.config.models import AdapterConfig
from srl_train.learners.lora import adapter_models
from tests.srl_train.learners.reference.grpo import (
    END,
    double,
    relative_error,
    small_model,
    small_tokenizer,
)
from tests.srl_train.learners.small_learner import EXACT, first_gradients

PAIRS = [
    Preference((1, 2, 3), (10, END), (11, END)),
    Preference((1, 2, 3, 10, END, 4), (12, 13, END), (11, END)),
    Preference((7,), (15, END), (16, 17, 18, END)),
]


def dpo_learner(model=None, **dpo):
    return DpoLearner(
        "model_0",
        small_model() if model is None else model,
        small_tokenizer(),
        DpoConfig(**dpo),
        planned_steps=10,
    )


def with_references(pairs, references):
    """Return the pairs with their log-probabilities under the reference."""
    return [replace(pair, reference=two) for pair, two in zip(pairs, references, strict=True)]


def log_probability(model, prompt, answer):
    ids = torch.tensor([prompt + answer])
    logps = model(input_ids=ids).logits[0, :-1].log_softmax(-1)
    return logps.gather(1, ids[0, 1:, None])[len(prompt) - 1 :, 0].sum()


def reference(model, held_to, loss_of, beta):
    """(gradients, loss): the mean of `loss_of(chosen ratio, rejected ratio, lengths, beta)`."""
    losses = []
    for pair in PAIRS:
        ratios = [
            log_probability(model, pair.prompt_ids, answer)
            - log_probability(held_to, pair.prompt_ids, answer).detach()
            for answer in (pair.chosen_ids, pair.rejected_ids)
        ]
        lengths = (len(pair.chosen_ids), len(pair.rejected_ids))
        losses.append(loss_of(*ratios, lengths, beta))
    loss = torch.stack(losses).mean()
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss, parameters)
    return dict(zip(names, gradients, strict=True)), float(loss.detach())


def sigmoid(chosen, rejected, lengths, beta):
    """Rafailov et al. 2023, eq. 7."""
    return -torch.nn.functional.logsigmoid(beta * (chosen - rejected))


def hinge(chosen, rejected, lengths, beta):
    return torch.relu(1 - beta * (chosen - rejected))


def ipo(chosen, rejected, lengths, beta):
    """Azar et al. 2023, eq. 17, per token."""
    return (chosen / lengths[0] - rejected / lengths[1] - 1 / (2 * beta)) ** 2


def robust(chosen, rejected, lengths, beta, share=0.1):
    """Chowdhury et al. 2024: unbiased where `share` of the labels are flipped."""
    delta = beta * (chosen - rejected)
    right, wrong = -torch.nn.functional.logsigmoid(delta), -torch.nn.functional.logsigmoid(-delta)
    return ((1 - share) * right - share * wrong) / (1 - 2 * share)


@pytest.mark.parametrize(
    "loss, settings",
    [(sigmoid, {}), (hinge, {}), (ipo, {}), (robust, {"label_smoothing": 0.1})],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_gradient_equals_the_formula(loss, settings):
    model = small_model()
    held_to = double(model)
    with dpo_learner(model, beta=0.5, loss=loss.__name__, **settings) as one:
        pairs = with_references(PAIRS, one.reference_logprobs(PAIRS))
        moved = small_model(seed=1)  # so that the ratios are not 1
        one.set_weights({name: p.detach() for name, p in moved.named_parameters()})
        found = first_gradients(one, pairs)
        expected, value = reference(double(model), held_to, loss, 0.5)
        assert relative_error(found, expected) < EXACT
        for name in expected:
            assert relative_error({name: found[name]}, {name: expected[name]}) < 3 * EXACT, name
        metrics = one.end_update()
    assert metrics["loss"] == pytest.approx(value, rel=1e-5)
    assert {"rewards/margins", "rewards/accuracies", "logps/chosen"} <= metrics.keys()


def test_adapter_reference_is_its_own_start():
    config = AdapterConfig(rank=2)
    [model] = adapter_models(small_model(), ["model_0"], config, seed=0).values()
    for name, parameter in model.named_parameters():
        if "lora_B" in name:  # as after an SFT stage
            torch.nn.init.normal_(parameter, std=0.1, generator=torch.Generator().manual_seed(1))
    names = {name for name, p in model.named_parameters() if p.requires_grad}
    with torch.no_grad():
        expected = float(log_probability(model, PAIRS[0].prompt_ids, PAIRS[0].chosen_ids))
    with dpo_learner(model) as one:
        pairs = with_references(PAIRS, one.reference_logprobs(PAIRS))
        assert pairs[0].reference[0] == pytest.approx(expected, rel=1e-5)
        gradients = first_gradients(one, pairs)
        assert gradients.keys() == names
        # All ratios are 1 at the beginning: the loss is log 2.
        assert one.end_update()["loss"] == pytest.approx(0.693147, abs=1e-5)
    assert list(model.peft_config) == ["default"]
    assert {name for name, p in model.named_parameters() if p.requires_grad} == names
    assert "forward" not in vars(model.get_base_model())


def test_rows_of_text_are_tokenised_by_trl():
    tokenizer = small_tokenizer()
    tokenizer.backend_tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    rows = [{"prompt": "w1 w2 ", "chosen": "w3", "rejected": "w4 w5 "}]
    with DpoLearner("a", small_model(), tokenizer, DpoConfig(), planned_steps=1) as one:
        # TRL closes both answers with the end-of-sequence token.
        assert one.tokenised(rows * 2) == [Preference((1, 2), (3, END), (4, 5, END))] * 2
        assert one.tokenised([]) == []
