"""Calls that send no message, and too many calls of one client."""

from __future__ import annotations

import queue
from contextlib import ExitStack, contextmanager

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from srl_envs.remote import connect
from srl_envs.remote.errors import RemoteError
from srl_envs.remote.protocol import environments_pb2 as pb
from srl_envs.remote.server import gate

TOKENS = "a" * 20, "b" * 20
OURS = "/srl.env.v1.Environments"
HEALTH = "/grpc.health.v1.Health"


@contextmanager
def silent(running, method, token=""):
    """A call that sends no message."""
    asked = queue.SimpleQueue()
    metadata = [("authorization", f"Bearer {token}")] if token else []
    with grpc.insecure_channel(running.address) as channel:
        yield channel.stream_stream(method)(iter(asked.get, None), metadata=metadata, timeout=20)
        asked.put(None)


@pytest.mark.parametrize(
    "method",
    [
        *(f"{OURS}/{name}" for name in ("Describe", "Step", "Stream", "Play")),
        f"{HEALTH}/Watch",
        "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
    ],
)
def test_calls_are_authenticated_before_their_message(start, method):
    running = start(tokens=TOKENS)
    with silent(running, method) as call:
        assert call.code().name == "UNAUTHENTICATED"
    assert running.refused == {"unauthenticated": 1}


@pytest.mark.parametrize(
    ("method", "token"),
    [(f"{OURS}/Describe", TOKENS[0]), (f"{OURS}/Play", TOKENS[0]), (f"{HEALTH}/Check", "")],
)
def test_a_message_must_arrive_in_time(start, monkeypatch, method, token):
    monkeypatch.setattr(gate, "SILENT_SECONDS", 0.05)
    running = start(tokens=TOKENS)
    with silent(running, method, token) as call:
        assert call.code().name == "DEADLINE_EXCEEDED"
        assert call.details() == "no message came within 0.05 s"
    assert running.refused == {"silent": 1}


def test_a_call_without_a_message_is_refused(start):
    running = start()
    with grpc.insecure_channel(running.address) as channel:
        call = channel.stream_unary(f"{OURS}/Describe").future(iter(()), timeout=20)
        assert call.code().name == "INVALID_ARGUMENT"


def test_a_client_has_a_limit_of_calls(start, monkeypatch):
    monkeypatch.setattr(gate, "MOST_CALLS", 2)
    running = start(tokens=TOKENS)
    with ExitStack() as ends:
        one = ends.enter_context(connect(running.address, token=TOKENS[0]))
        other = ends.enter_context(connect(running.address, token=TOKENS[1]))
        streams = []  # gRPC cancels a call without references
        for _ in range(2):
            asked = queue.SimpleQueue()
            ends.callback(asked.put, None)
            asked.put(pb.StepRequest(sessions=[pb.SessionStep(session="x")]))
            streams.append(one.stream(iter(asked.get, None)))
            next(streams[-1])  # the reply shows that the call is counted
        with pytest.raises(RemoteError, match="at most 2 calls at once"):
            one.describe()
        assert other.describe().refused["too many calls"] == 1


def test_a_client_watches_health(start):
    running = start(tokens=TOKENS)
    metadata = [("authorization", f"Bearer {TOKENS[0]}")]
    with grpc.insecure_channel(running.address) as channel:
        request = health_pb2.HealthCheckRequest(service="srl.env.v1.Environments")
        watch = health_pb2_grpc.HealthStub(channel).Watch(request, metadata=metadata, timeout=20)
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        watch.cancel()
