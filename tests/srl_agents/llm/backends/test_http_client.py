"""Clients verify certificates and limit the size and duration of replies."""

import contextlib
import gzip
import itertools
from types import SimpleNamespace

import pytest

from srl_agents.errors import BackendError
from srl_agents.event_loop import run
from srl_agents.llm.backends import chat_backend
from srl_agents.llm.backends.network import http_client
from srl_agents.llm.backends.registry import api_model
from srl_agents.llm.sampling import Sampling
from srl_extensions.vllm import client as endpoint
from srl_extensions.vllm.client import VLLMClient
from tests.servers.chat_server import chat_server
from tests.servers.faulty_http import Handler

SDK = SimpleNamespace(
    DefaultAsyncHttpxClient=type(
        "Client", (), {"__init__": lambda self, **settings: vars(self).update(settings)}
    )
)
LIMIT = 2**16
BOMB = gzip.compress(b" " * 2**24)


@pytest.mark.parametrize(
    ("url", "checked"),
    [
        ("", True),  # the SDK's own
        ("https://models.example/v1", True),
        ("https://127.0.0.1:8000/v1", True),
        ("HTTPS://127.0.0.1:8000/v1", True),
        ("http://127.0.0.1:8000/v1", False),
    ],
)
def test_https_certificates_are_verified(url, checked):
    assert http_client(SDK, url, most_bytes=1).verify is checked


async def ask_api(name, seconds):
    request = chat_backend.ChatRequest(({"role": "user", "content": "Now?"},), Sampling())
    await type(api_model(name))("m", timeout=seconds).answer(request)


async def ask_vllm(url, seconds):
    await VLLMClient(url, deadline=seconds).models()


async def check_vllm(url, seconds):
    await VLLMClient(url, deadline=seconds).check_ready("m")


@pytest.fixture(params=["openai:m", "anthropic:m", ask_vllm, check_vllm])
def ask(request, monkeypatch):
    """Send a request to a server whose reply consists of the pieces `body()`."""
    monkeypatch.setattr(chat_backend, "MOST_BYTES", LIMIT)
    monkeypatch.setattr(endpoint, "MOST_BYTES", LIMIT)

    def asked(body, status=200, seconds=60.0, **headers):
        def reply(handler, _):
            handler.send_response(status)
            handler.send_header("Content-Type", "application/json")
            for header, value in headers.items():
                handler.send_header(header.replace("_", "-"), value)
            handler.end_headers()
            with contextlib.suppress(OSError):  # the client has hung up
                for piece in body():
                    handler.wfile.write(piece)
                    if handler.server.closing.wait(0.001):
                        break
            handler.close_connection = True

        monkeypatch.setattr(Handler, "_answer", reply)
        with chat_server() as server:
            kind = request.param
            run(ask_api(kind, seconds) if isinstance(kind, str) else kind(server.url, seconds))

    return asked


@pytest.mark.parametrize("status", [200, 500])
@pytest.mark.parametrize(
    ("body", "headers"),
    [
        (lambda: itertools.repeat(b" " * 2**12), {}),
        (lambda: [b" " * (LIMIT + 1)], {}),
        (lambda: [BOMB], {"Content_Encoding": "gzip"}),
        (lambda: [gzip.compress(BOMB)], {"Content_Encoding": "gzip, gzip"}),
    ],
    ids=["endless", "long", "bomb", "bomb in a bomb"],
)
def test_a_body_above_the_limit_is_rejected(ask, body, headers, status):
    with pytest.raises(BackendError, match=f"reply is longer than {LIMIT} bytes"):
        ask(body, status, **headers)


def test_an_endless_body_ends_at_the_deadline(ask):
    with pytest.raises(BackendError, match=r"no answer within 0\.3 s"):
        ask(lambda: itertools.repeat(b" "), seconds=0.3)


def test_a_redirection_is_not_followed(ask):
    received = []
    with pytest.raises(BackendError, match="307"):
        ask(lambda: received.append(1) or [], 307, Location="/elsewhere")
    assert len(received) == 1
