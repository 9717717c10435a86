"""Servers that fail in every way they know, under many requests: none is lost, none comes twice."""

import asyncio

import numpy as np
import pytest

from srl_agents.event_loop import run
from srl_agents.llm.backends.chat_backend import ChatRequest
from srl_agents.llm.backends.network import RetryPolicy
from srl_agents.llm.backends.registry import api_model
from srl_agents.llm.sampling import Sampling
from tests.servers.chat_server import chat_server
from tests.servers.faulty_http import FAULTS

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
