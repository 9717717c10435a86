"""Gate of a server: the key, and requests before the weights are loaded."""

import asyncio

import pytest

from srl_extensions.vllm.plugins.gate import KEY, OPEN, OWNER, Gate

PASSED = "passed on"


async def application(scope, receive, send):
    await send(PASSED)


def request(gate, path, key="secret", kind="http", owner=False):
    """Return PASSED for a request that reaches the server, or else the status."""
    sent = []

    async def send(message):
        sent.append(message)

    headers = [] if key is None else [(b"authorization", f"Bearer {key}".encode())]
    headers += [(OWNER.encode(), b"1")] if owner else []
    scope = {"type": kind, "path": path, "headers": headers}
    asyncio.run(gate(scope, None, send))
    return sent[0] if sent[0] == PASSED else sent[0].get("status", sent[0]["type"])


@pytest.fixture
def gate():
    return Gate(application, {KEY: "secret"})


@pytest.mark.parametrize("path", ["/v1/completions", "/health", "/pause", "/collective_rpc", OPEN])
def test_requests_without_the_key_are_refused(gate, path):
    for key in (None, "other", ""):
        assert request(gate, path, key) == request(gate, path, key, owner=True) == 401


def test_only_the_owner_is_admitted_before_the_gate_is_open(gate):
    assert request(gate, "/v1/completions") == request(gate, "/health") == 503
    assert request(gate, "/v1/completions", owner=True) == PASSED
    assert request(gate, OPEN, owner=True) == 200
    assert request(gate, "/v1/completions") == request(gate, "/health") == PASSED


def test_lifespan_passes_and_websockets_are_closed(gate):
    assert request(gate, "", None, "lifespan") == PASSED
    assert request(gate, "/v1/realtime", kind="websocket") == "websocket.close"
