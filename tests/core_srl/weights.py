"""Helpers for tests of shared weights."""

import torch

from srl_agents.event_loop import together
from srl_agents.llm.backends.token_backend import Request
from srl_agents.llm.chat_format import ChatTurn
from srl_agents.llm.sampling import Sampling
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
    """Return the log-probabilities of the completion at temperature 1.5, in one forward pass."""
    with torch.inference_mode(), quiet_upstream():
        logits = model(torch.tensor([[*context, *completion]])).logits[0].float() / 1.5
    rows = logits.log_softmax(-1)[len(context) - 1 : -1]
    return rows[range(len(completion)), list(completion)]


def other_weights(manager, lora_id, seed):
    generator = torch.Generator().manual_seed(seed)
    return {
        name: torch.randn(own.shape, generator=generator) * 0.3
        for name, own in manager.weights(lora_id).items()
    }


async def asked(backend, *adapters, seed=0):
    """Return a prompt and the answers of these adapters at temperature 1.5."""
    [prompt] = backend.chat.prompts([ChatTurn("Round 1.", rules="Choose.")])
    sampling = Sampling(temperature=1.5, max_new_tokens=6)
    requests = [Request(prompt, sampling, seed, adapter=adapter) for adapter in adapters]
    return prompt, await together(*map(backend.complete, requests))
