"""What tests of shared weights read off a model."""

import torch

from srl_train.learners.upstream_warnings import quiet_upstream


def parameters(manager):
    return dict(manager.backend.model.named_parameters())


def gradients_of(manager, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(own.shape, generator=generator)
        for name, own in parameters(manager).items()
        if own.requires_grad
    }


def logprobs_of(model, context, completion):
    """What the model gives the completion at temperature 1.5, read at once."""
    with torch.inference_mode(), quiet_upstream():
        logits = model(torch.tensor([[*context, *completion]])).logits[0].float() / 1.5
    rows = logits.log_softmax(-1)[len(context) - 1 : -1]
    return rows[range(len(completion)), list(completion)]
