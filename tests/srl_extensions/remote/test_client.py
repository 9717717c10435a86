"""gRPC client: names of environments, texts, rules, sessions, and refusals before a call."""

from __future__ import annotations

import gc
import socket
import time

import numpy as np
import pytest

import srl_envs
import srl_extensions.remote.environments_pb2 as pb
from srl_envs import registry
from srl_envs.errors import EnvConfigError, EnvError, UntrustedError
from srl_envs.vector.loop import SyncVectorGame
from srl_extensions.remote import connect, remote
from srl_extensions.remote.messages import RemoteError


def test_environments_share_a_connection(everything):
    env, other = (remote(everything.address, "maze_v0", width=5, height=5) for _ in range(2))
    assert env._server is other._server and env.width == 5


def test_url_is_an_environment_name(everything):
    env = srl_envs.make(f"grpc://{everything.address}/maze_v0", width=5, height=5)
    assert env.metadata["name"] == "maze_v0" and env.width == 5
    assert env.made_as["name"].startswith("grpc://")
    with pytest.raises(EnvConfigError, match=r"must be grpc://HOST:PORT/NAME"):
        srl_envs.make("grpc://127.0.0.1:1")


def test_record_cannot_name_a_server(everything):
    name = f"grpc://{everything.address}/maze_v0"
    before = everything.describe().open_sessions
    local = registry.remake(name, {"width": 5, "height": 5})
    assert type(local).__name__ == "Maze"
    members = {"environments": {"one": {"name": name}}}
    with pytest.raises(UntrustedError, match="is a server that a record names"):
        registry.remake("multitask_v0", members)
    assert everything.describe().open_sessions == before


def test_sessions_end_with_their_environments(start):
    running = start()
    with connect(running.address) as server:
        closed, dropped = server.env("coop_compete_v0"), server.env("coop_compete_v0")
        vector = SyncVectorGame(lambda: server.env("coop_compete_v0"), 3)
        assert server.describe().open_sessions == 5
        closed.close()
        vector.close()
        del dropped
        gc.collect()
        while server.describe().open_sessions:  # closing does not wait for the server
            pass


def test_ended_session_is_opened_again_by_a_reset_with_a_seed(start):
    running = start(lease=0.2)
    with connect(running.address) as server:
        env = server.env("coop_compete_v0")
        first = env.reset(seed=3)
        while server.describe().open_sessions:
            time.sleep(0.05)
        with pytest.raises(RemoteError) as refused:
            env.step(dict.fromkeys(env.agents, 0))
        assert refused.value.code == "NOT_FOUND"
        with pytest.raises(RemoteError):
            env.reset()
        assert str(env.reset(seed=3)) == str(first)
        assert len(env.step(dict.fromkeys(env.agents, 0))[1]) == 4


def test_environment_errors_equal_the_local_ones(everything):
    with pytest.raises(RemoteError, match="num_agents must be a whole number") as refused:
        everything.env("coop_compete_v0", num_agents="many")
    assert refused.value.code == "INVALID_ARGUMENT"
    env = everything.env("coop_compete_v0", num_agents=2)
    with pytest.raises(EnvError, match="call reset"):
        env.step({"agent_0": 0, "agent_1": 0})
    env.reset(seed=0)
    with pytest.raises(RemoteError, match="action 7 of agent_1 is outside"):
        env.step({"agent_0": 0, "agent_1": 7})
    # It changed nothing: the turn can be played.
    assert env.step({"agent_0": 0, "agent_1": np.int64(1)})[1].keys() == {"agent_0", "agent_1"}


def test_texts_of_another_release_are_refused(start, monkeypatch):
    with connect(start().address) as server:
        env = server.env("coop_compete_v0")
        assert env.text_view.rules("agent_0")
        other = server.env("coop_compete_v0")
        answer = pb.ServerDescription(version="0.0.1")
        monkeypatch.setattr(server, "describe", lambda: answer)
        with pytest.raises(EnvError, match="require the same core-srl"):
            other.text_view.rules("agent_0")


def test_no_proxy_is_used_on_this_machine(start, monkeypatch):
    running = start()
    with socket.create_server(("127.0.0.1", 0)) as proxy:
        for name in ("no_proxy", "NO_PROXY", "no_grpc_proxy"):
            monkeypatch.delenv(name, raising=False)
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.getsockname()[1]}")
        with connect(running.address) as server:
            assert server.describe().environments


@pytest.mark.parametrize(
    "address", ["", "here", "127.0.0.1", "127.0.0.1:x", ":1", "127.0.0.1:99999"]
)
def test_addresses_are_checked(address):
    with pytest.raises(EnvConfigError, match="an address is HOST:PORT"):
        connect(address)


def test_other_machines_are_refused():
    with pytest.raises(EnvConfigError, match="SSH tunnel"):
        connect("games.example:50051")


def test_missing_server_is_reported():
    with pytest.raises(RemoteError, match="check that an environment server runs"):
        connect("127.0.0.1:9", timeout=0.5)
