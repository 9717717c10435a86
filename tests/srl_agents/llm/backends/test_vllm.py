"""Models that vLLM serves, against its endpoints as a small model in this process answers them."""

from pathlib import Path

import pytest
import torch

from srl_agents.episode import ModelVersion
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.retrying import RetryPolicy
from srl_agents.llm.backends.token_backend import Request
from srl_agents.llm.backends.vllm import VLLMBackend, seed_of
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.rollout.episode_loop import play_many
from srl_agents.rollout.event_loop import run, together
from srl_agents.serving.endpoint import Endpoint
from srl_agents.serving.scheduler import Scheduler
from tests.servers.vllm_stub import stub_server
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
    scheduler, endpoints = Scheduler(), [Endpoint(one.url, retries=SOON) for one in stubs]

    async def add():
        for endpoint in endpoints:
            scheduler.add(endpoint, base="base", capacity=capacity)

    background_loop.run(add())
    return VLLMBackend(scheduler, here.tokenizer, base="base", **settings), endpoints


def publish(backend, endpoints, adapter, folder, version=0):
    name = f"{adapter}@{version}"
    for endpoint in endpoints:
        background_loop.run(endpoint.load_adapter(name, folder))
    backend.serve(adapter, ModelVersion("base", version, adapter), name)


@pytest.fixture
def served(stub, adapters):
    """A seeded backend with both adapters published."""
    here, folders = adapters
    backend, endpoints = served_by(stub, here=here, seeded=True)
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


@pytest.mark.parametrize("adapter", [None, *ADAPTERS])
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(max_new_tokens=6),
        Sampling(temperature=0.7, top_p=0.9, max_new_tokens=6),
        Sampling(temperature=0.0, max_new_tokens=6),
        Sampling(top_k=3, max_new_tokens=2),
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
    local = Request(request.context, sampling, seed_of(request), 0, answers,
                    adapter or "__base__")  # fmt: skip
    [expected] = here.sample([local])
    assert (answer.ids, answer.ended, answer.allowed) == (
        expected.ids, expected.ended, expected.allowed
    )  # fmt: skip
    assert answer.logprobs == pytest.approx(expected.logprobs, abs=1e-5)
    assert answer.model == ModelVersion("base", 0, adapter)


def test_games_are_played_by_servers(stub, adapters):
    here, folders = adapters
    backend, endpoints = served_by(stub, here=here)
    for name, folder in folders.items():
        publish(backend, endpoints, name, folder)
    env = make_env()
    seats = dict(zip(env.possible_agents, ("red", "blue", "red", "blue"), strict=True))
    policy = TextPolicy(backend, env.unwrapped.text_view, adapter=seats, constrained=True)
    episodes = play_many(make_env, dict.fromkeys(seats, policy), range(4))
    assert all(episode.failure is None and len(episode.turns) == 8 for episode in episodes)
    # One call per turn and adapter, for all games together.
    assert len(stub.bodies) == 8 * 2 and stub.counts["prompts"] == 8 * 4 * 4
    background_loop.run(endpoints[0].close())
