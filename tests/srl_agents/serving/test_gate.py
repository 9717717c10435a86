"""Gates of servers: who may ask what, and when."""

import asyncio

import pytest

from srl_agents.serving.plugins.gate import GUEST_KEY, OPEN, OWNER_KEY, Gate

KEYS = {OWNER_KEY: "owner", GUEST_KEY: "guest"}
IN = "came in"


async def application(scope, receive, send):
    await send(IN)


def asked(gate, path, key, kind="http"):
    """What is sent for a request: IN, else the status."""
    sent = []

    async def send(message):
        sent.append(message)

    headers = [] if key is None else [(b"authorization", f"Bearer {key}".encode())]
    scope = {"type": kind, "path": path, "headers": headers}
    asyncio.run(gate(scope, None, send))
    return sent[0] if sent[0] == IN else sent[0].get("status", sent[0]["type"])


@pytest.fixture
def gate():
    return Gate(application, KEYS)


@pytest.mark.parametrize("path", ["/v1/completions", "/health", "/pause", "/collective_rpc"])
def test_nobody_comes_in_without_a_key_and_its_owner_always(gate, path):
    assert asked(gate, path, None) == asked(gate, path, "other") == asked(gate, path, "") == 401
    assert asked(gate, path, "owner") == IN


def test_guests_sample_once_it_was_opened_and_change_nothing(gate):
    assert asked(gate, OPEN, "guest") == asked(gate, "/v1/completions", "guest") == 503
    assert asked(gate, OPEN, "owner") == 200
    assert {asked(gate, f"/{path}", "guest") for path in ("v1/completions", "health")} == {IN}
    for path in ("/pause", "/collective_rpc", "/v1/load_lora_adapter", OPEN, "/v1/completions/x"):
        assert asked(gate, path, "guest") == 403
    assert asked(gate, "/v1/completions", "other") == 401


def test_what_starts_the_application_goes_through_and_other_wires_do_not(gate):
    assert asked(gate, "", None, "lifespan") == IN
    assert asked(gate, "/v1/realtime", "owner", "websocket") == "websocket.close"


def test_a_gate_without_keys_does_not_stand():
    with pytest.raises(KeyError):
        Gate(application, {})
