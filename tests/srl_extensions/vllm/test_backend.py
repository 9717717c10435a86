"""Sampling backend of vLLM servers, with the stub of their endpoints."""

import asyncio
from pathlib import Path

import numpy as np
import pytest
import torch

from srl_agents.episode import ModelVersion
from srl_agents.errors import BackendError
from srl_agents.event_loop import run, together
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.token_backend import Request, known_trie
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.rollout import play_many
from srl_extensions.vllm import backend as backends
from srl_extensions.vllm.backend import VLLMBackend, completion
from srl_extensions.vllm.client import Sampled, VLLMClient
from srl_extensions.vllm.routing import Router
from tests.servers import vllm_stub
from tests.servers.vllm_stub import choice_of_another_vocabulary, stub_server
from tests.srl_agents.llm.conftest import make_env

# peft 0.21 still reads the name that transformers 5.23 is retiring.
pytestmark = pytest.mark.filterwarnings("ignore:`is_gradient_checkpointing` is deprecated")
ADAPTERS = ("red", "blue")


@pytest.fixture(scope="module")
def adapters(tiny_folder, tmp_path_factory) -> tuple[HuggingFaceBackend, dict[str, Path]]:
    """Model with two adapters in this process, and adapter -> folder."""
    from peft import LoraConfig, get_peft_model

    here = HuggingFaceBackend.load(tiny_folder, device="cpu", name="base")
    torch.manual_seed(5)
    lora = LoraConfig(r=4, target_modules="all-linear", init_lora_weights=False)
    model = get_peft_model(here.model, lora, adapter_name="red")
    model.add_adapter("blue", lora)
    target = tmp_path_factory.mktemp("adapters")
    model.save_pretrained(target)
    return (
        HuggingFaceBackend(model.eval(), here.tokenizer, name="base"),
        {name: target / name for name in ADAPTERS},
    )


def served_by(*stubs, here, capacity=8, **settings):
    """Return a backend of these servers, and their clients."""
    router, endpoints = Router(), [VLLMClient(one.url) for one in stubs]

    async def add():
        for endpoint in endpoints:
            router.add(endpoint, capacity=capacity)

    background_loop.run(add())
    return VLLMBackend(router, here.tokenizer, base="base", **settings), endpoints


def publish(backend, endpoints, adapter, folder, version=0):
    name = f"{adapter}@{version}"
    for endpoint in endpoints:
        background_loop.run(endpoint.load_adapter(name, folder))
    backend.serve(adapter, ModelVersion("base", version, adapter), name)


@pytest.fixture
def served(stub, adapters):
    """Backend with both adapters published."""
    here, folders = adapters
    backend, endpoints = served_by(stub, here=here)
    for name, folder in folders.items():
        publish(backend, endpoints, name, folder)
    yield backend
    for endpoint in endpoints:
        background_loop.run(endpoint.close())


def request_of(here, words="hello", conversation=0, **settings):
    context = here.chat.answer(words) * 3
    return Request(context, settings.pop("sampling", Sampling()), 7, conversation=conversation,
                   **settings)  # fmt: skip


def complete(backend, *requests):
    return run(together(*map(backend.complete, requests)))


@pytest.mark.parametrize("adapter", [None, "red"])
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(max_new_tokens=6),
        Sampling(temperature=0.7, top_p=0.9, max_new_tokens=6),
        Sampling(temperature=0.0, max_new_tokens=6),
    ],
    ids=str,
)
@pytest.mark.parametrize("constrained", [False, True])
def test_answers_match_the_same_model_in_this_process(
    served, adapters, adapter, sampling, constrained
):
    here, _ = adapters
    answers = (
        tuple(map(here.chat.answer, ("cooperate", "compete", "wait"))) if constrained else None
    )
    request = request_of(here, adapter=adapter, sampling=sampling, answers=answers, draws_before=3)
    [answer] = complete(served, request)
    seed = int(np.random.default_rng(0).integers(2**31))  # Seed of the stub's first answer.
    local = Request(request.context, sampling, seed, 0, answers,
                    adapter or "__base__")  # fmt: skip
    [expected] = here.sample([local])
    assert (answer.ids, answer.ended, answer.allowed) == (
        expected.ids, expected.ended, expected.allowed
    )  # fmt: skip
    assert answer.logprobs == pytest.approx(expected.logprobs, abs=1e-5)
    assert answer.model == ModelVersion("base", 0, adapter)


def test_concurrent_requests_are_grouped_by_model_and_settings(stub, adapters, monkeypatch):
    monkeypatch.setattr(backends, "PROMPTS_PER_CALL", 4)
    here, folders = adapters
    backend, endpoints = served_by(stub, here=here)
    publish(backend, endpoints, "red", folders["red"])
    short = Sampling(max_new_tokens=1)
    answers = tuple(map(here.chat.answer, ("cooperate", "compete")))
    requests = [
        *(request_of(here, conversation=n) for n in range(6)),
        *(request_of(here, conversation=n, adapter="red") for n in range(3)),
        *(request_of(here, conversation=n, sampling=short) for n in range(2)),
        *(request_of(here, conversation=n, answers=answers) for n in range(2)),
    ]
    complete(backend, *requests)
    assert sorted(len(body["prompt"]) for body in stub.bodies) == [2, 2, 2, 3, 4]
    background_loop.run(endpoints[0].close())


def test_answer_has_the_requested_version_and_drained_waits_for_it(served, adapters, stub):
    here, _ = adapters
    version = ModelVersion("base", 1, "red")

    async def publication():
        stub._running.clear()  # Answers wait.
        before = asyncio.ensure_future(served.complete(request_of(here, adapter="red")))
        while not stub.bodies:
            await asyncio.sleep(0.01)
        served.serve("red", version, "blue@0")
        drained = asyncio.ensure_future(served.drained("red@0"))
        after = asyncio.ensure_future(served.complete(request_of(here, adapter="red", version=1)))
        await asyncio.sleep(0.1)
        assert not drained.done()
        with pytest.raises(BackendError, match=r"version of a request must be .* got 0"):
            await served.complete(request_of(here, adapter="red", version=0))
        stub._running.set()
        await drained
        assert before.done()
        return await before, await after

    before, after = run(publication())
    assert (before.model, after.model) == (ModelVersion("base", 0, "red"), version)
    assert [body["model"] for body in stub.bodies] == ["red@0", "blue@0"]
    run(served.drained("never served"))


def test_unpublished_adapters_and_long_contexts_are_refused_without_a_request(adapters, stub):
    here, _ = adapters
    backend, _ = served_by(stub, here=here, positions=20)
    limited = HuggingFaceBackend(here.model, here.tokenizer, name="base")
    limited.positions = 20
    with pytest.raises(BackendError, match="base lacks the adapter 'red'"):
        complete(backend, Request((1,), Sampling(max_new_tokens=1), 0, adapter="red"))
    long = Request((1,) * 10, Sampling(max_new_tokens=11), 0)
    messages = []
    for one in (backend, limited):
        with pytest.raises(BackendError, match="exceed the 20 positions") as failure:
            complete(one, long)
        messages.append(str(failure.value))
    assert messages[0] == messages[1] and not stub.bodies


def test_illegal_answer_raises(adapters):
    here, _ = adapters
    [yes, no, other] = map(here.chat.answer, ("cooperate", "compete", "wait"))
    request = request_of(here, answers=(yes, no))
    trie, end = known_trie((yes, no), here.chat.end_of_turn), here.chat.end_of_turn
    version = ModelVersion("base")
    for ids, message in (((*other, end), "no legal answer"), (yes, "before its end")):
        with pytest.raises(BackendError, match=message):
            completion(Sampled(ids, (-0.5,) * len(ids), True), request, trie, version)


def test_unknown_token_ids_fail_only_their_own_request(stub, adapters, monkeypatch):
    here, _ = adapters
    backend, endpoints = served_by(stub, here=here)
    assert backend.vocabulary == len(here.tokenizer) <= here.vocabulary
    monkeypatch.setattr(vllm_stub, "_choice", choice_of_another_vocabulary(10 * here.vocabulary))

    async def both():
        requests = [backend.complete(request_of(here, conversation=number)) for number in range(2)]
        return await asyncio.gather(*requests, return_exceptions=True)

    wrong, right = run(both())
    assert isinstance(wrong, BackendError), wrong
    assert f"must be at most {backend.vocabulary - 1}" in str(wrong)
    assert right.ids and len(stub.bodies) == 1, "one call for both"
    for endpoint in endpoints:
        background_loop.run(endpoint.close())


def test_episodes_continue_on_another_server_after_a_death(tiny_folder, stub, adapters):
    here, _ = adapters
    with stub_server(tiny_folder) as other:
        backend, endpoints = served_by(stub, other, here=here, capacity=1)
        view = make_env().unwrapped.text_view
        policy = TextPolicy(backend, view, constrained=True)
        stub.dies_after = 3
        episodes = play_many(
            make_env, dict.fromkeys(make_env().possible_agents, policy), range(12), in_flight=1
        )
        assert not any(episode.failure for episode in episodes)
        assert len(stub.bodies) == 3 and len(other.bodies) > 3
        for endpoint in endpoints:
            background_loop.run(endpoint.close())


def test_forced_and_greedy_tokens_have_log_probability_zero(adapters):
    here, _ = adapters
    listed = ((5, 6), (5, 7, 8))
    request = request_of(here, answers=listed)
    end = here.chat.end_of_turn
    sampled = Sampled((5, 7, 8, end), (-0.1, -0.5, -0.2, -0.3), True)
    trie, version = known_trie(listed, end), ModelVersion("base")
    made = completion(sampled, request, trie, version)
    assert made.logprobs == (0.0, -0.5, 0.0, 0.0)
    assert made.allowed == ((5,), (6, 7), (8,), (end,))
    greedy = request_of(here, sampling=Sampling(temperature=0.0))
    assert completion(sampled, greedy, None, version).logprobs == (0.0,) * 4
