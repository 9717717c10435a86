"""The SFT learner's gradients are the formula's, and TRL still has the seams we use."""

import pytest
import torch

from srl_extensions.offline.config import SftConfig
from srl_extensions.offline.data import Demonstration
from srl_extensions.offline.learners import SftLearner
from tests.srl_train.learners.reference.grpo import (
    END,
    double,
    relative_error,
    small_model,
    small_tokenizer,
)
from tests.srl_train.learners.small_learner import EXACT, first_gradients


def sft_learner(model=None, *, planned_steps=10, **sft):
    return SftLearner(
        "model_0",
        small_model() if model is None else model,
        small_tokenizer(),
        SftConfig(**sft),
        planned_steps=planned_steps,
    )


def lesson(*spans):
    """Build a Demonstration from ("told" | "said" | "unread", ids) pairs."""
    ids, answers, observations = [], [], []
    for number, (kind, own) in enumerate(spans):
        ids += own
        answers += [int(kind == "said")] * len(own)
        observations += [int(kind == "told" and number > 0)] * len(own)
    return Demonstration(tuple(ids), tuple(answers), tuple(observations))


LESSONS = [
    lesson(("told", [1, 2, 3]), ("said", [10, END]), ("told", [4, 5]), ("said", [11, END])),
    lesson(("told", [7, 8]), ("unread", [15, 16, END]), ("told", [9]), ("said", [16, 12, END])),
    lesson(("told", [7]), ("said", [17, 18, END])),
]


def reference(model, lessons, answer_weight, observation_weight):
    """(gradients, loss) of the documented formula, one conversation at a time."""
    totals = {"answers": 0.0, "observations": 0.0}
    counts = dict.fromkeys(totals, 0)
    for one in lessons:
        ids = torch.tensor([one.input_ids])
        logps = model(input_ids=ids).logits[0, :-1].log_softmax(-1)
        own = logps.gather(1, ids[0, 1:, None])[:, 0]
        for kind in totals:
            mask = torch.tensor(getattr(one, kind)[1:], dtype=own.dtype)
            totals[kind] = totals[kind] - (own * mask).sum()
            counts[kind] += int(mask.sum())
    loss = answer_weight * totals["answers"] / counts["answers"]
    loss = loss + observation_weight * totals["observations"] / counts["observations"]
    names, parameters = zip(*model.named_parameters(), strict=True)
    gradients = torch.autograd.grad(loss, parameters)
    return dict(zip(names, gradients, strict=True)), float(loss.detach())


@pytest.mark.parametrize("weights", [(1.0, 0.0), (0.0, 1.0), (0.7, 0.2)])
def test_gradient_equals_the_formula(weights):
    model = small_model()
    exact = double(model)
    with sft_learner(model, answer_weight=weights[0], observation_weight=weights[1]) as one:
        found = first_gradients(one, LESSONS)
        expected, loss = reference(exact, LESSONS, *weights)
        assert relative_error(found, expected) < EXACT
        for name in expected:
            assert relative_error({name: found[name]}, {name: expected[name]}) < 3 * EXACT, name
        metrics = one.end_update()
    assert metrics["loss"] == pytest.approx(loss, abs=1e-5)
    assert metrics["entropy"] > 0 and 0 <= metrics["mean_token_accuracy"] <= 1
