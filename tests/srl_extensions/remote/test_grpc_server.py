"""gRPC server: admission, settings, encryption, and the refusals of its calls."""

from __future__ import annotations

import queue
import shutil
import subprocess
import threading
import time
from contextlib import contextmanager

import grpc
import pytest

from srl_envs.errors import EnvConfigError
from srl_extensions.remote import connect, grpc_server
from srl_extensions.remote import environments_pb2 as pb
from srl_extensions.remote.errors import RemoteError
from srl_extensions.remote.grpc_server import in_thread
from srl_extensions.remote.messages import pack, pack_actions
from srl_extensions.remote.settings import ServerSettings, read_tokens
from tests.srl_extensions.remote import misbehaving

TOKENS = "a" * 20, "b" * 20
SERVICE = "/srl.env.v4.Environments"
HANGING = f"{misbehaving.__name__}:hanging"
GAME = ["coop_compete_v0"]


def status(running, method, data, token=""):
    """Return the status of a call of plain bytes."""
    with grpc.insecure_channel(running.address) as channel:
        call = channel.unary_unary(f"{SERVICE}/{method}")
        metadata = [("authorization", f"Bearer {token}")] if token else []
        with pytest.raises(grpc.RpcError) as refused:
            call(data, metadata=metadata, timeout=20)
    assert "\n" not in refused.value.details()
    return refused.value.code().name


@contextmanager
def silent(running, method, token=""):
    """A call that sends no message."""
    requests = queue.SimpleQueue()
    metadata = [("authorization", f"Bearer {token}")] if token else []
    with grpc.insecure_channel(running.address) as channel:
        yield channel.stream_stream(method)(iter(requests.get, None), metadata=metadata, timeout=20)
        requests.put(None)


def test_calls_are_authenticated_before_their_message(start):
    running = start(tokens=TOKENS)
    with silent(running, f"{SERVICE}/Step") as call:
        assert call.code().name == "UNAUTHENTICATED"


def test_message_must_arrive_in_time(start, monkeypatch):
    monkeypatch.setattr(grpc_server, "SILENT_SECONDS", 0.05)
    running = start(tokens=TOKENS)
    with silent(running, f"{SERVICE}/Describe", TOKENS[0]) as call:
        assert call.code().name == "DEADLINE_EXCEEDED"


def test_client_has_a_limit_of_calls(start, monkeypatch):
    monkeypatch.setattr(grpc_server, "MOST_CALLS", 1)
    running = start(tokens=TOKENS)
    with silent(running, f"{SERVICE}/Describe", TOKENS[0]) as call:
        while not running.service.calls:
            time.sleep(0.01)
        assert status(running, "Describe", b"", TOKENS[0]) == "RESOURCE_EXHAUSTED"
        with connect(running.address, token=TOKENS[1]) as other:
            assert other.describe().environments
        assert call.is_active()


def test_every_call_requires_a_valid_token(start):
    running = start(tokens=TOKENS)
    for wrong in ("", "c" * 20, "a" * 19):
        assert status(running, "Describe", b"", wrong) == "UNAUTHENTICATED"


def test_sessions_of_another_token_are_refused(start, monkeypatch):
    running = start(tokens=TOKENS)
    monkeypatch.setenv("SRL_ENV_TOKEN", TOKENS[1])
    with connect(running.address, token=TOKENS[0]) as one, connect(running.address) as other:
        mine, theirs = one.env("coop_compete_v0"), other.env("coop_compete_v0")
        mine.reset(seed=0)
        theirs._session, theirs._begun, theirs.agents = mine._session, True, mine.agents
        with pytest.raises(RemoteError, match="there is no such session"):
            theirs.step(dict.fromkeys(mine.agents, 0))


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
        [session] = running.service.sessions.open_sessions.values()
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


@pytest.fixture
def pair(tmp_path):
    """A certificate for localhost, and its key."""
    if shutil.which("openssl") is None:
        pytest.skip("openssl makes the certificate")
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-keyout", key, "-out", certificate, "-days", "1", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost"],
        check=True, capture_output=True,
    )  # fmt: skip
    return certificate, key


def test_calls_are_encrypted_with_a_certificate(start, pair, monkeypatch):
    certificate, key = pair
    running = start(host="localhost", certificate=certificate, key=key, tokens=TOKENS)
    monkeypatch.setenv("SRL_ENV_CERTIFICATE", str(certificate))
    with connect(running.address, token=TOKENS[0]) as server:
        assert len(server.env("coop_compete_v0").reset(seed=0)[0]) == 4
    monkeypatch.delenv("SRL_ENV_CERTIFICATE")
    with pytest.raises(RemoteError, match="SRL_ENV_CERTIFICATE"):
        connect(running.address, token=TOKENS[0], timeout=0.5)  # in plaintext


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"environments": []}, "name some of coop_compete_v0"),
        ({"environments": ["maze_v9"]}, "did you mean 'maze_v0'"),
        ({"environments": ["no_such_games:chess"]}, "No module named 'no_such_games'"),
        ({"host": "0.0.0.0"}, "requires certificate and key"),
        ({"host": "games.example"}, "requires certificate and key"),
        ({"host": "0.0.0.0", "certificate": "c", "key": "k"}, "requires tokens"),
        ({"certificate": "c"}, "belong together"),
        ({"tokens": ["short"]}, "16 printable characters"),
        ({"port": 70_000}, "port"),
        ({"threads": 0}, "threads"),
    ],
)
def test_settings_are_checked(wrong, said):
    with pytest.raises(EnvConfigError, match=said):
        ServerSettings(**{"environments": GAME} | wrong)


def test_tokens_are_read_from_a_file_or_the_environment_and_never_shown(tmp_path, monkeypatch):
    file = tmp_path / "tokens"
    file.write_text("x" * 16 + "\n" + "y" * 16 + "\n")
    assert read_tokens(file) == ("x" * 16, "y" * 16)
    monkeypatch.setenv("SRL_ENV_TOKEN", "z" * 16)
    assert read_tokens(None) == ("z" * 16,)
    assert "z" * 16 not in repr(ServerSettings(environments=GAME, tokens=read_tokens(None)))
    monkeypatch.delenv("SRL_ENV_TOKEN")
    assert read_tokens(None) == ()
    file.write_text("\n")
    for wrong in (file, tmp_path / "none"):
        with pytest.raises(EnvConfigError, match="file of tokens"):
            read_tokens(wrong)
