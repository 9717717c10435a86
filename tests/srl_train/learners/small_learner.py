"""GRPO learners of the small model, and what their tests compare."""

import torch

from srl_train.config.learning.learners import GrpoConfig
from srl_train.learners.trl_grpo import GrpoLearner
from tests.srl_train.learners.reference.grpo import small_model, small_tokenizer

EXACT = 1e-5  # relative to float64; the learner's own float32 is good for about 1e-6


def learner(
    model=None,
    *,
    temperature=1.0,
    max_divergence=None,
    planned_updates=10,
    group_size=4,
    **grpo,
):
    return GrpoLearner(
        "model_0",
        small_model() if model is None else model,
        small_tokenizer(),
        GrpoConfig(**grpo),
        group_size=group_size,
        temperature=temperature,
        planned_updates=planned_updates,
        max_divergence=max_divergence,
    )


def first_gradients(one, samples, version=0, seed=3):
    one.begin_update(samples, seed, version)
    return one.compute_gradients()


def update(one, samples, version=0, seed=3):
    """A whole update; returns its metrics."""
    for _ in range(one.begin_update(samples, seed, version)):
        one.apply_gradients(one.compute_gradients())
    return one.end_update()


def copied(tensors):
    return {name: tensor.clone() for name, tensor in tensors.items()}


def equal(one, other):
    return one.keys() == other.keys() and all(torch.equal(one[n], other[n]) for n in one)


def optimizer_tensors(one):
    state = one.state()["optimizer"]["state"]
    return {f"{i}.{k}": torch.as_tensor(v).clone() for i, e in state.items() for k, v in e.items()}
