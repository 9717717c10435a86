"""Models that vLLM serves, against its endpoints as a small model in this process answers them."""

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
from srl_agents.llm.backends.network import RetryPolicy
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
SOON = RetryPolicy(deadline=5.0, unreachable=0.2, first_wait=0.01, longest_wait=0.05)
ADAPTERS = ("red", "blue")


@pytest.fixture(scope="module")
def adapters(tiny_folder, tmp_path_factory) -> tuple[HuggingFaceBackend, dict[str, Path]]:
    """The same model in this process, and its adapters' folders."""
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


@pytest.fixture
def stub(tiny_folder):
    with stub_server(tiny_folder) as running:
        yield running


def served_by(*stubs, here, capacity=8, **settings):
    """A backend over the servers, and their endpoints."""
    router, endpoints = Router(), [VLLMClient(one.url, retries=SOON) for one in stubs]

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
    """A backend with both adapters published."""
    here, folders = adapters
    backend, endpoints = served_by(stub, here=here)
    for name, folder in folders.items():
        publish(backend, endpoints, name, folder)
    yield backend
    for endpoint in endpoints:
        background_loop.run(endpoint.close())


def asked(here, words="hello", conversation=0, **settings):
    context = here.chat.answer(words) * 3
    return Request(context, settings.pop("sampling", Sampling()), 7, conversation=conversation,
                   **settings)  # fmt: skip


def ask(backend, *requests):
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
def test_answers_are_those_of_the_same_model_here(served, adapters, adapter, sampling, constrained):
    here, _ = adapters
    answers = (
        tuple(map(here.chat.answer, ("cooperate", "compete", "wait"))) if constrained else None
    )
    request = asked(here, adapter=adapter, sampling=sampling, answers=answers, draws_before=3)
    [answer] = ask(served, request)
    seed = int(np.random.default_rng(0).integers(2**31))  # of the stub's first answer
    local = Request(request.context, sampling, seed, 0, answers,
                    adapter or "__base__")  # fmt: skip
    [expected] = here.sample([local])
    assert (answer.ids, answer.ended, answer.allowed) == (
        expected.ids, expected.ended, expected.allowed
    )  # fmt: skip
    assert answer.logprobs == pytest.approx(expected.logprobs, abs=1e-5)
    assert answer.model == ModelVersion("base", 0, adapter)


def test_requests_of_one_moment_go_out_in_one_call_per_model_and_settings(
    stub, adapters, monkeypatch
):
    monkeypatch.setattr(backends, "PROMPTS_PER_CALL", 4)
    here, folders = adapters
    backend, endpoints = served_by(stub, here=here)
    publish(backend, endpoints, "red", folders["red"])
    short = Sampling(max_new_tokens=1)
    answers = tuple(map(here.chat.answer, ("cooperate", "compete")))
    requests = [
        *(asked(here, conversation=n) for n in range(6)),
        *(asked(here, conversation=n, adapter="red") for n in range(3)),
        *(asked(here, conversation=n, sampling=short) for n in range(2)),
        *(asked(here, conversation=n, answers=answers) for n in range(2)),
    ]
    ask(backend, *requests)
    assert sorted(len(body["prompt"]) for body in stub.bodies) == [2, 2, 2, 3, 4]
    background_loop.run(endpoints[0].close())


def test_an_answer_has_the_version_that_was_asked_and_a_name_is_drained_after_it(
    served, adapters, stub
):
    here, _ = adapters
    version = ModelVersion("base", 1, "red", "digest")

    async def publication():
        stub._running.clear()  # answers wait
        before = asyncio.ensure_future(served.complete(asked(here, adapter="red")))
        while not stub.bodies:
            await asyncio.sleep(0.01)
        served.serve("red", version, "blue@0")
        drained = asyncio.ensure_future(served.drained("red@0"))
        after = asyncio.ensure_future(served.complete(asked(here, adapter="red", version=1)))
        await asyncio.sleep(0.1)
        assert not drained.done()
        with pytest.raises(BackendError, match=r"version of a request must be .* got 0"):
            await served.complete(asked(here, adapter="red", version=0))
        stub._running.set()
        await drained
        assert before.done()
        return await before, await after

    before, after = run(publication())
    assert (before.model, after.model) == (ModelVersion("base", 0, "red"), version)
    assert [body["model"] for body in stub.bodies] == ["red@0", "blue@0"]
    assert served.identity("red") == version
    run(served.drained("never served"))


def test_what_was_not_published_and_what_does_not_fit_is_refused_before_it_is_asked(adapters, stub):
    here, _ = adapters
    backend, _ = served_by(stub, here=here, positions=20)
    limited = HuggingFaceBackend(here.model, here.tokenizer, name="base")
    limited.positions = 20
    with pytest.raises(BackendError, match="base lacks the adapter 'red'"):
        ask(backend, Request((1,), Sampling(max_new_tokens=1), 0, adapter="red"))
    long = Request((1,) * 10, Sampling(max_new_tokens=11), 0)
    said = []
    for one in (backend, limited):
        with pytest.raises(BackendError, match="exceed the 20 positions") as failure:
            ask(one, long)
        said.append(str(failure.value))
    assert said[0] == said[1] and not stub.bodies


def test_an_answer_that_was_not_allowed_is_refused(adapters):
    here, _ = adapters
    [yes, no, other] = map(here.chat.answer, ("cooperate", "compete", "wait"))
    request = asked(here, answers=(yes, no))
    trie, end = known_trie((yes, no), here.chat.end_of_turn), here.chat.end_of_turn
    version = ModelVersion("base")
    for ids, said in (((*other, end), "no legal answer"), (yes, "before its end")):
        with pytest.raises(BackendError, match=said):
            completion(Sampled(ids, (-0.5,) * len(ids), True), request, trie, version)


def test_token_ids_that_the_model_lacks_fail_their_own_request(stub, adapters, monkeypatch):
    here, _ = adapters
    backend, endpoints = served_by(stub, here=here)
    assert backend.vocabulary == len(here.tokenizer) <= here.vocabulary
    monkeypatch.setattr(vllm_stub, "_choice", choice_of_another_vocabulary(10 * here.vocabulary))

    async def both():
        requests = [backend.complete(asked(here, conversation=number)) for number in range(2)]
        return await asyncio.gather(*requests, return_exceptions=True)

    wrong, right = run(both())
    assert isinstance(wrong, BackendError), wrong
    assert f"whose model has ids up to {backend.vocabulary - 1}" in str(wrong)
    assert right.ids and len(stub.bodies) == 1, "one call for both"
    for endpoint in endpoints:
        background_loop.run(endpoint.close())


def test_the_only_legal_answer_is_not_asked_for(served, adapters, stub):
    here, _ = adapters
    only = here.chat.answer("cooperate")
    [answer] = ask(served, asked(here, answers=(only,), adapter="red"))
    assert answer.ids == (*only, here.chat.end_of_turn) and set(answer.logprobs) == {0.0}
    assert answer.allowed == tuple((token,) for token in answer.ids) and not stub.bodies


def test_games_go_on_at_another_server_when_one_dies(tiny_folder, stub, adapters):
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


def test_what_left_no_choice_has_log_probability_0_whatever_the_server_says(adapters):
    here, _ = adapters
    listed = ((5, 6), (5, 7, 8))
    request = asked(here, answers=listed)
    end = here.chat.end_of_turn
    sampled = Sampled((5, 7, 8, end), (-0.1, -0.5, -0.2, -0.3), True)
    trie, version = known_trie(listed, end), ModelVersion("base")
    made = completion(sampled, request, trie, version)
    assert made.logprobs == (0.0, -0.5, 0.0, 0.0)
    assert made.allowed == ((5,), (6, 7), (8,), (end,))
    greedy = asked(here, sampling=Sampling(temperature=0.0))
    assert completion(sampled, greedy, None, version).logprobs == (0.0,) * 4
