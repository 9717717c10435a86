"""Servers that answer wrongly: every reply is checked, and an invalid one is an EnvError."""

import json
import socket
import threading
from contextlib import contextmanager

import pytest
from websockets.sync.server import serve

from srl_envs.errors import EnvConfigError, EnvError
from srl_extensions.remote.openenv_client import OpenEnvGame, PartnerGame

FIRST = '{"type": "observation", "data": {"observation": {"at": 0}, "reward": null, "done": false}}'


@contextmanager
def saying(*replies):
    """A server with fixed replies to the first messages, then silence; None closes."""

    def handle(connection):
        for reply in replies:
            connection.recv()
            if reply is None:
                return
            connection.send(reply)
        for _ in connection:
            pass

    with serve(handle, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()


def observed(**data):
    return json.dumps({"type": "observation", "data": {"observation": {}, "done": False, **data}})


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "not JSON",
        "[" * 100_000,
        b"\xff\xfe",
        "[]",
        "3",
        '{"type": "observation"}',
        '{"type": "observation", "data": []}',
        '{"type": "error", "data": {"message": "\\u001b[2J"}}',
        observed(observation=[1]),
        observed(observation="text"),
        observed(done="yes"),
        observed(reward="1"),
        observed(reward=float("nan")),
        observed(reward=float("inf")),
        observed(reward=10**400),
        observed(observation={"x": "y" * (5 * 2**20)}),
        None,
    ],
)
def test_invalid_reply_ends_the_episode_with_an_error(reply):
    with saying(FIRST, reply) as url:
        game = OpenEnvGame(url, rules="Play.", field="x", timeout=20)
        game.reset(seed=0)
        with pytest.raises(EnvError) as caught:
            game.step({"agent_0": "x"})
        assert str(caught.value).isprintable() and len(str(caught.value)) < 400
        assert game.agents == []
        with pytest.raises(EnvError, match="call reset"):
            game.step({"agent_0": "x"})


def test_lost_connection_is_not_replaced_within_an_episode():
    with saying(FIRST) as url:
        game = OpenEnvGame(url, rules="Play.", field="x")
        game.reset(seed=0)
    with saying(FIRST, FIRST) as other:
        game._client._async._set_base_url(other)  # as if the server had started again
        with pytest.raises(EnvError, match="connection was lost"):
            game.step({"agent_0": "x"})


def test_silent_server_times_out():
    with saying(FIRST) as url:
        game = OpenEnvGame(url, rules="Play.", field="x", timeout=0.2)
        game.reset()
        with pytest.raises(EnvError, match=r"no reply within 0\.2 s"):
            game.step({"agent_0": "x"})


def test_missing_server_is_an_error():
    with pytest.raises(EnvError, match="Failed to connect"):
        OpenEnvGame("http://127.0.0.1:9", rules="Play.", field="x", timeout=5).reset()


@pytest.mark.parametrize("url", ["", "127.0.0.1:8000", "file:///etc/passwd", "http://", None])
def test_address_is_checked(url):
    with pytest.raises(EnvConfigError, match="url"):
        OpenEnvGame(url, rules="Play.", field="x")


STATE = {"possible_agents": ["a"], "answers": {"a": ["x"]}}


def state(**changed):
    return json.dumps({"type": "state", "data": {**STATE, **changed}})


@pytest.mark.parametrize(
    "changed",
    [
        {"possible_agents": []},
        {"possible_agents": ["a", "b"]},
        {"possible_agents": [["a"]]},
        {"possible_agents": "a"},
        {"answers": None},
        {"answers": {"a": [1]}},
    ],
)
def test_wrong_state_is_refused(changed):
    with saying(state(**changed)) as url, pytest.raises(EnvError):
        PartnerGame(url)


@pytest.mark.parametrize("texts", [None, {}, {"b": "hello"}, {"a": 3}, "hello"])
def test_wrong_observation_of_our_game_is_refused(texts):
    with saying(state(), observed(observation={"observations": texts})) as url:
        game = PartnerGame(url)
        with pytest.raises(EnvError):
            game.reset()
        assert game.agents == []


@pytest.mark.parametrize("variable", ["http_proxy", "https_proxy"])
def test_no_proxy_is_used_on_this_machine(monkeypatch, variable):
    with socket.create_server(("127.0.0.1", 0)) as proxy, saying(FIRST) as url:
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        game = OpenEnvGame(url, rules="Play.", field="x")
        assert game.reset()[0] == {"agent_0": "at: 0"}
        game.close()
