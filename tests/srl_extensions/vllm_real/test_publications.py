"""Publications during requests to a real server: every answer is from its version."""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from srl_agents.llm.backends.token_backend import Request
from srl_agents.llm.sampling import Sampling
from srl_extensions.vllm.backend import VLLMBackend
from tests.srl_extensions.vllm_real.conftest import BASE

PUBLICATIONS = 200
IN_FLIGHT = 8
CLOSE = 1e-4  # of a log-probability


@pytest.fixture
def learner(model_folder):
    """Module that trains an adapter, and its tokenizer."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from srl_train.config.models import AdapterConfig
    from srl_train.learners.lora import adapter_models

    base = AutoModelForCausalLM.from_pretrained(model_folder)
    tokenizer = AutoTokenizer.from_pretrained(model_folder)
    module = adapter_models(base, ("model_0",), AdapterConfig(rank=8), 0)["model_0"]
    return SimpleNamespace(module=module, tokenizer=tokenizer)


def test_answers_match_their_version_during_two_hundred_publications(fleet, learner, tmp_path):
    import torch

    from srl_extensions.vllm.publisher import ServedPublisher, write_weights

    backend = VLLMBackend(fleet.routers[BASE], learner.tokenizer, base=BASE)

    def write(name, weights, probes, folder):
        return write_weights(learner.module, weights, probes, folder)

    publisher = ServedPublisher(
        {"model_0": backend},
        fleet,
        write,
        folder=tmp_path / "published",
        probe=list(range(3, 30)),
        dtype="float32",
        keep=1,
    )
    trained = {n: p.detach() for n, p in learner.module.named_parameters() if p.requires_grad}
    torch.manual_seed(0)

    def weights(version):
        return {n: own + 0.05 * torch.randn_like(own) * (version > 0) for n, own in trained.items()}

    published = {0: weights(0)}
    publisher.publish("model_0", 0, published[0])
    over, sent, answered = threading.Event(), [], []

    async def ask(number):
        context = tuple(3 + (number * 7 + place * 5) % 200 for place in range(24))
        request = Request(context, Sampling(max_new_tokens=8), seed=number, adapter="model_0")
        sent.append(request)
        answered.append((request, await backend.complete(request)))

    async def keep_asking():
        numbers = iter(range(10**9))

        async def one_after_the_other():
            while not over.is_set():
                await ask(next(numbers))

        async with asyncio.TaskGroup() as group:
            for _ in range(IN_FLIGHT):
                group.create_task(one_after_the_other())

    asking = threading.Thread(target=lambda: asyncio.run(keep_asking()))
    asking.start()
    try:
        for version in range(1, PUBLICATIONS + 1):
            published[version] = weights(version)
            publisher.publish("model_0", version, published[version])
    finally:
        over.set()
        asking.join()
        publisher.close()

    assert len(answered) == len(sent) > PUBLICATIONS  # No request was lost.
    assert len({one.model.version for _, one in answered}) > PUBLICATIONS / 4
    worst = max(
        farthest(learner.module, weights, [pair for pair in answered if version_of(pair) == number])
        for number, weights in published.items()
        if number in set(map(version_of, answered))
    )
    assert worst < CLOSE, worst


def version_of(pair):
    return pair[1].model.version


def farthest(module, weights, answered):
    """Return the largest difference of the answers' log-probabilities from the module's."""
    import torch
    from torch.func import functional_call

    rows = [(*request.context, *one.ids) for request, one in answered]
    longest = max(map(len, rows))
    tokens = torch.tensor([[*row, *[0] * (longest - len(row))] for row in rows])
    with torch.no_grad():
        logits = functional_call(module.eval(), weights, (tokens,)).logits
    own = logits[:, :-1].log_softmax(-1).gather(-1, tokens[:, 1:, None])[:, :, 0]
    return max(
        abs(float(values[len(request.context) - 1 + place]) - value)
        for values, (request, one) in zip(own, answered, strict=True)
        for place, value in enumerate(one.logprobs)
    )
