"""What a server may say that is wrong: all of it an EnvError, none of it believed."""

import json
import socket
import threading
from contextlib import contextmanager

import pytest
from websockets.sync.server import serve

from srl_envs.errors import EnvConfigError, EnvError
from srl_extensions.remote.openenv_client import JointGame, OpenEnvGame, Session

FIRST = '{"type": "observation", "data": {"observation": {"at": 0}, "reward": null, "done": false}}'


@contextmanager
def saying(*replies):
    """A server that says these whatever it is asked, and nothing more; None hangs up."""

    def handle(connection):
        for reply in replies:
            connection.recv()
            if reply is None:
                return
            connection.send(reply)
        connection.recv()
        connection.recv()  # silence, until the client hangs up

    with serve(handle, "127.0.0.1", 0) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.socket.getsockname()[1]}"
        server.shutdown()


def observed(**data):
    return json.dumps({"type": "observation", "data": {"observation": {}, **data}})


@pytest.mark.parametrize(
    ("reply", "told"),
    [
        ("", "cannot be read"),
        ("not JSON", "cannot be read"),
        ("[" * 100_000, "nested"),
        (b"\xff\xfe", "cannot be read"),
        ("[]", "no data"),
        ("3", "no data"),
        ('{"type": "observation"}', "no data"),
        ('{"type": "observation", "data": []}', "no data"),
        ('{"type": "error", "data": {"message": "\\u001b[2J"}}', r"refused: \\x1b"),
        ('{"type": "error", "data": {}}', "refused"),
        (observed(observation=[1]), "observation"),
        (observed(observation="text"), "observation"),
        (observed(done="yes"), "done"),
        (observed(done=1), "done"),
        (observed(reward="1"), "reward"),
        (observed(reward={}), "reward"),
        ('{"type": "observation", "data": {"observation": {}, "reward": NaN}}', "cannot be read"),
        ('{"type": "observation", "data": {"observation": {}, "reward": 1e999}}', "cannot be read"),
        (f'{{"data": {{"observation": {{}}, "reward": 1{"0" * 400}}}}}', "no finite number"),
        (observed(observation={"x": "y" * (5 * 2**20)}), "connection was lost"),
        (None, "connection was lost"),
    ],
)
def test_a_bad_reply_ends_the_game_with_an_error(reply, told):
    with saying(FIRST, reply) as url:
        game = OpenEnvGame(url, rules="Play.", field="x", timeout=20)
        game.reset(seed=0)
        with pytest.raises(EnvError, match=told) as caught:
            game.step({"agent_0": "x"})
        assert str(caught.value).isprintable() and len(str(caught.value)) < 400
        assert game.agents == []
        with pytest.raises(EnvError, match="call reset"):
            game.step({"agent_0": "x"})


def test_a_server_that_keeps_silent_is_waited_for_no_longer_than_said():
    with saying(FIRST) as url:
        session = Session(url, timeout=0.2)
        session.reset()
        with pytest.raises(EnvError, match=r"no reply within 0\.2 s"):
            session.step({})
        session.close()


def test_nobody_there_is_an_error():
    with pytest.raises(EnvError, match="no OpenEnv server answers"):
        Session("http://127.0.0.1:9", timeout=5).reset()


@pytest.mark.parametrize(
    "url", ["", "127.0.0.1:8000", "file:///etc/passwd", "ftp://x", "http://", None]
)
def test_an_address_is_one(url):
    with pytest.raises(EnvConfigError, match="give one such as"):
        Session(url)


STATE = {"possible_agents": ["a", "b"], "text": True, "answers": {"a": [], "b": ["x"]}}
TURN = {
    "agents": ["a", "b"],
    "observations": {"a": "hello", "b": "hello"},
    "infos": {"a": {}, "b": {}},
    "rewards": {"a": 1, "b": 0.5},
    "terminations": {"a": False, "b": True},
    "truncations": {"a": False, "b": False},
}


def state(**changed):
    return json.dumps({"type": "state", "data": {**STATE, **changed}})


def turn(**changed):
    return observed(observation={**TURN, **changed})


@pytest.mark.parametrize(
    ("changed", "told"),
    [
        ({"possible_agents": []}, "is this server ours"),
        ({"possible_agents": ["a", "a"]}, "is this server ours"),
        ({"possible_agents": [["a"]]}, "is this server ours"),
        ({"possible_agents": "ab"}, "is this server ours"),
        ({"text": 1}, "in words"),
        ({"answers": None}, "no texts"),
        ({"answers": {"a": [1], "b": []}}, "no texts"),
    ],
)
def test_a_state_that_is_none_is_refused(changed, told):
    with saying(state(**changed)) as url, pytest.raises(EnvError, match=told):
        JointGame(url)


@pytest.mark.parametrize(
    "changed",
    [
        {"agents": []},
        {"agents": "nobody"},
        {"observations": {"a": "hello"}},
        {"observations": {"a": "hello", "b": 3}},
        {"infos": {"a": {}, "b": 3}},
        {"infos": {"a": {}, "b": {"__numpy__": "array", "dtype": "O", "shape": [1], "data": [1]}}},
    ],
)
def test_a_first_turn_that_is_none_is_refused(changed):
    with saying(state(), turn(**changed)) as url:
        game = JointGame(url)
        with pytest.raises(EnvError):
            game.reset()
        assert game.agents == []


@pytest.mark.parametrize(
    "changed",
    [
        {"observations": None},
        {"rewards": {"a": 1}},
        {"rewards": {"a": 1, "b": "much"}},
        {"terminations": {"a": 0, "b": 1}},
        {"truncations": []},
        {"infos": {"a": {"x": {"__numpy__": "tuple"}}, "b": {}}},
    ],
)
def test_a_turn_that_is_none_is_refused(changed):
    with saying(state(), turn(), turn(**changed)) as url:
        game = JointGame(url)
        game.reset()
        with pytest.raises(EnvError):
            game.step({"a": "x", "b": "y"})
        assert game.agents == []


def test_a_good_turn_is_read_and_who_left_is_gone():
    with saying(state(), turn(), turn()) as url:
        game = JointGame(url)
        game.reset()
        _, rewards, terminations, *_ = game.step({"a": "x", "b": "y"})
        assert rewards == {"a": 1.0, "b": 0.5} and terminations == {"a": False, "b": True}
        assert game.agents == ["a"]
        game.close()


@pytest.mark.parametrize("variable", ["http_proxy", "https_proxy"])
def test_no_proxy_is_used_on_this_machine(monkeypatch, variable):
    with socket.create_server(("127.0.0.1", 0)) as proxy, saying(FIRST) as url:
        for name in ("no_proxy", "NO_PROXY"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv(variable, f"http://127.0.0.1:{proxy.getsockname()[1]}")
        session = Session(url)
        assert session.reset().observation == {"at": 0}
        session.close()
