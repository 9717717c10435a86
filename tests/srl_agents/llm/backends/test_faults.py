"""Servers that fail in every way they know, under many requests: none is lost, none comes twice."""

import asyncio
import hashlib
from collections import Counter

import numpy as np
import pytest

from srl_agents.errors import BackendError
from srl_agents.event_loop import run
from srl_agents.llm.backends import background_loop
from srl_agents.llm.backends.chat_backend import ChatRequest
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.network import RetryPolicy
from srl_agents.llm.backends.registry import api_model
from srl_agents.llm.backends.token_backend import Request
from srl_agents.llm.chat_policy import ChatPolicy
from srl_agents.llm.sampling import Sampling
from srl_agents.rollout import play_many
from srl_extensions.vllm.backend import VLLMBackend
from srl_extensions.vllm.client import VLLMClient
from srl_extensions.vllm.routing import Router
from tests.servers.chat_server import chat_server
from tests.servers.faulty_http import FAULTS
from tests.servers.three_tries import THREE_TRIES
from tests.servers.vllm_stub import stub_server
from tests.srl_agents.llm.conftest import make_env

PATIENT = RetryPolicy(deadline=120.0, unreachable=120.0, first_wait=0.01, longest_wait=0.05)
TIMEOUT, STALL = 1.0, 1.2  # seconds
STRUCK = 0.3  # of the requests
COUNTS = [100, pytest.param(1000, marks=pytest.mark.slow)]
APIS = ("openai:m", "anthropic:m")


def strike(server, requests):
    rng = np.random.default_rng(7)
    kinds = [*FAULTS, *rng.choice(FAULTS, size=max(0, int(requests * STRUCK) - len(FAULTS)))]
    script = kinds + [None] * (requests - len(kinds))
    server.faults.script.extend(rng.permutation(np.array(script, dtype=object)))
    server.faults.stall = STALL


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("name", APIS)
def test_every_api_request_is_answered_once(name, count):
    with chat_server() as server:
        server.answer = lambda body: "echo " + body["messages"][-1]["content"]
        strike(server, count)
        model = type(api_model(name))("m", timeout=TIMEOUT, retries=PATIENT)

        async def ask():
            said = [({"role": "user", "content": str(n)},) for n in range(count)]
            requests = (ChatRequest(one, Sampling()) for one in said)
            return await asyncio.gather(*map(model.answer, requests))

        answers = run(ask())
        assert [answer.text for answer in answers] == [f"echo {n}" for n in range(count)]
        assert model.usage.answers == count
        assert set(server.faults.struck) == set(FAULTS)


def served_by(endpoint, here, **settings):
    router = Router()

    async def add():
        router.add(endpoint, capacity=8)

    background_loop.run(add())
    return VLLMBackend(router, here.tokenizer, base="base", **settings)


class Victim:
    """Fault of all requests of one conversation, that of the fortieth request."""

    def __init__(self, conversation_of):
        self.conversation_of, self.seen, self.chosen = conversation_of, 0, None

    def __call__(self, body):
        self.seen += 1
        conversation = self.conversation_of(body)
        if self.seen == 40 and self.chosen is None:
            self.chosen = conversation
        begins_alike = conversation[: len(self.chosen or ())] == self.chosen
        return "500" if begins_alike else None


def games(policy):
    """Play four episodes and count their failures."""
    seats = dict.fromkeys(make_env().possible_agents, policy)
    episodes = play_many(make_env, seats, range(4))
    return episodes, Counter((episode.failure or "").partition(":")[0] for episode in episodes)


@pytest.mark.parametrize("name", APIS)
def test_a_failed_api_request_fails_only_its_episode(name):
    with chat_server() as server:
        # Random answers make the conversations of the episodes distinct.
        said = iter(range(10**6))
        server.answer = lambda body: f"cooperate {hashlib.md5(bytes(next(said))).hexdigest()}"
        server.faults.always = Victim(lambda body: [str(m) for m in body["messages"]])
        model = type(api_model(name))("m", retries=THREE_TRIES)
        _, failures = games(ChatPolicy(model, make_env().unwrapped.text_view))
    assert failures == {"": 3, "BackendError": 1}


def test_a_rejected_request_does_not_fail_others_of_its_batch(tiny_folder):
    here = HuggingFaceBackend.load(tiny_folder, device="cpu")
    with stub_server(tiny_folder) as stub:
        endpoint = VLLMClient(stub.url, retries=PATIENT)
        backend = served_by(endpoint, here)  # which does not know how long a context may be
        lengths = [5, 5000, 7]
        requests = [Request((9,) * length, Sampling(max_new_tokens=2), 0) for length in lengths]

        async def ask():
            asked = map(backend.complete, requests)
            return await asyncio.gather(*asked, return_exceptions=True)

        first, second, third = run(ask())
        assert first.ids and third.ids
        assert isinstance(second, BackendError) and "400" in str(second)
        background_loop.run(endpoint.close())
