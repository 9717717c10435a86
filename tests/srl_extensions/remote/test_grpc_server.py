"""gRPC server: settings, and the refusals of its calls."""

from __future__ import annotations

import threading
import time

import grpc
import pytest

from srl_envs.errors import EnvConfigError
from srl_extensions.remote import connect
from srl_extensions.remote import environments_pb2 as pb
from srl_extensions.remote.grpc_server import ServerSettings, in_thread
from srl_extensions.remote.messages import RemoteError, pack, pack_actions
from tests.srl_extensions.remote import misbehaving

SERVICE = "/srl.env.v4.Environments"
HANGING = f"{misbehaving.__name__}:hanging"
GAME = ["coop_compete_v0"]


def status(running, method, data):
    """Return the status of a call of plain bytes."""
    with grpc.insecure_channel(running.address) as channel:
        call = channel.unary_unary(f"{SERVICE}/{method}")
        with pytest.raises(grpc.RpcError) as refused:
            call(data, timeout=20)
    assert "\n" not in refused.value.details()
    return refused.value.code().name


def test_oversized_requests(start):
    assert status(start(), "Open", b"x" * (5 << 20)) == "RESOURCE_EXHAUSTED"


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("Open", b"\xff\xff"),
        ("Open", pb.OpenRequest(environment="coop_compete_v0")),
        ("Open", pb.OpenRequest(environment="coop_compete_v0", options=pack([1]))),
    ],
)
def test_malformed_requests(start, method, message):
    running = start()
    data = message if isinstance(message, bytes) else message.SerializeToString()
    assert status(running, method, data) == "INVALID_ARGUMENT"


def test_invalid_actions_are_refused(start):
    with connect(start().address) as server:
        env = server.env("coop_compete_v0")
        env.reset(seed=0)
        with pytest.raises(RemoteError, match="two mappings"):
            server.call("Step", pb.StepRequest(session=env._session, actions=b"[]"))


def test_cancelled_step_is_finished_before_the_next_call(start):
    misbehaving.FREE.clear()
    misbehaving.BEGAN.clear()
    running = start(environments=[HANGING])
    with connect(running.address) as server:
        env = server.env(HANGING)
        env.reset(seed=0)
        with pytest.raises(RemoteError, match="Deadline"):
            server.call(
                "Step",
                pb.StepRequest(
                    session=env._session, actions=pack_actions(dict.fromkeys(env.agents, 0))
                ),
                timeout=0.2,
            )
        with pytest.raises(RemoteError, match="another call"):
            env.reset(seed=0)
        misbehaving.FREE.set()
        [session] = running.sessions.open_sessions.values()
        while not session.idle.is_set():
            time.sleep(0.01)
        assert len(env.reset(seed=0)[0]) == 4


@pytest.mark.parametrize(
    ("name", "options", "code", "said"),
    [
        ("maze_v0", {}, "PERMISSION_DENIED", "'maze_v0' is not offered here"),
        ("os:system", {}, "PERMISSION_DENIED", "is not offered here"),
        ("coop_compete_v0", {"num_agent": 2}, "INVALID_ARGUMENT", "did you mean 'num_agents'"),
        ("coop_compete_v0", {"num_agents": 5000}, "INVALID_ARGUMENT", "at most 1000, got 5000$"),
        ("coop_compete_v0", {"render_mode": "ansi"}, "INVALID_ARGUMENT", "render_mode"),
        ("math_v0", {"path": "/etc/passwd"}, "INVALID_ARGUMENT", "is a place on this machine"),
        ("math_v0", {"split": "test"}, "PERMISSION_DENIED", "kept for evaluation"),
        ("multitask_v0", {"environments": {"a": {"name": "tool_use_v0"}}}, "PERMISSION_DENIED",
         "'tool_use_v0' is not offered"),
        ("multitask_v0", {"environments": {"a": {"name": "os:system"}}}, "INVALID_ARGUMENT",
         "is code that a record names"),
    ],
)  # fmt: skip
def test_unknown_environments_and_options_are_refused(few, name, options, code, said):
    with pytest.raises(RemoteError, match=said) as refused:
        few.env(name, **options)
    assert refused.value.code == code
    assert not few.describe().open_sessions


@pytest.fixture
def few(start):
    running = start(environments=["coop_compete_v0", "math_v0", "multitask_v0"])
    with connect(running.address) as server:
        yield server


def test_running_calls_are_finished_when_the_server_ends():
    misbehaving.FREE.clear()
    misbehaving.BEGAN.clear()
    played = []
    with in_thread(ServerSettings(environments=[HANGING])) as running:
        server = connect(running.address)
        env = server.env(HANGING)
        env.reset(seed=0)
        actions = dict.fromkeys(env.agents, 0)
        step = threading.Thread(target=lambda: played.append(env.step(actions)))
        step.start()
        assert misbehaving.BEGAN.wait(60)
        threading.Timer(0.3, misbehaving.FREE.set).start()
    step.join()
    server.close()
    assert len(played) == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"environments": []}, "name some of coop_compete_v0"),
        ({"environments": ["maze_v9"]}, "did you mean 'maze_v0'"),
        ({"environments": ["no_such_games:chess"]}, "No module named 'no_such_games'"),
        ({"host": "0.0.0.0"}, "loopback address .*SSH tunnel"),
        ({"host": "games.example"}, "loopback address"),
        ({"host": None}, "loopback address"),
        ({"port": 70_000}, "port"),
        ({"threads": 0}, "threads"),
    ],
)
def test_settings_are_checked(wrong, said):
    with pytest.raises(EnvConfigError, match=said):
        ServerSettings(**{"environments": GAME} | wrong)


def test_an_ipv6_address_needs_no_brackets(start):
    try:
        address = start(host="::1").address
    except EnvConfigError as error:  # a machine without IPv6
        address = str(error)
    assert "[::1]:" in address
