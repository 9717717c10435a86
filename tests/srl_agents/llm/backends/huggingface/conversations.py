"""Conversations with a Hugging Face backend, played the same way each time."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from srl_agents.event_loop import run, together
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.token_backend import Request
from srl_agents.llm.chat_format import ChatTurn
from srl_agents.llm.sampling import Sampling

NUMBERS = itertools.count()
ANSWERS = ("compete", "cooperate")
SAMPLING = Sampling(temperature=1.5, max_new_tokens=6)


def wild(backend):
    """Return a backend with an untrained model, whose answers have all lengths."""
    torch.manual_seed(3)
    model = LlamaForCausalLM(replace_config(backend.model.config)).eval()
    model.generation_config.eos_token_id = list(range(0, len(backend.tokenizer), 4))
    return HuggingFaceBackend(model, backend.tokenizer, name="wild")


def replace_config(config, kind=LlamaConfig, **changes):
    settings = {**config.to_dict(), **changes}
    for name in ("architectures", "model_type", "transformers_version", "dtype"):
        settings.pop(name, None)
    return kind(**settings)


def converse(backend, rows, turns, *, keep=True, constrained=False, adapters=None, seed=0):
    """Sample `rows` conversations and return all completions and the final requests."""
    chat = backend.chat
    answers = tuple(map(chat.answer, ANSWERS)) if constrained else None
    requests = [
        Request((), SAMPLING, 1000 * seed + row, 0, answers,
                conversation=next(NUMBERS) if keep else None)
        for row in range(rows)
    ]  # fmt: skip
    if adapters:
        requests = [replace(r, adapter=a) for r, a in zip(requests, adapters, strict=True)]
    said = []
    for turn in range(turns):
        for row, request in enumerate(requests):
            words = "x " * (row % 3) + f"Round {turn}."  # rows differ in length
            rules = "Choose." if turn == 0 else None
            last = request.context[-1] if turn else None
            [prompt] = chat.prompts([ChatTurn(words, rules=rules, last=last)])
            requests[row] = replace(request, context=request.context + prompt)
        completions = run(asked(backend, requests))
        said.append(completions)
        requests = [
            replace(r, context=r.context + c.ids, draws_before=r.draws_before + r.longest)
            for r, c in zip(requests, completions, strict=True)
        ]
    return said, requests


async def asked(backend, requests):
    return await together(*map(backend.complete, requests))


def assert_same(left, right, atol=1e-4):
    for a, b in zip(left, right, strict=True):
        for one, other in zip(a, b, strict=True):
            assert one.ids == other.ids
            np.testing.assert_allclose(one.logprobs, other.logprobs, atol=atol)
            assert one.allowed == other.allowed
            assert one.ended == other.ended


def last_turn(backend, requests, **changes):
    asked = [replace(r, context=(*r.context, 5, 6, 7), **changes) for r in requests]
    return [[c] for c in backend.sample(asked)]


def seeds_again(requests, seed=11):
    return [replace(r, seed=1000 * seed + i, draws_before=0) for i, r in enumerate(requests)]
