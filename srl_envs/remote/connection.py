"""Connection to an environment server: its address, token and certificate, and the calls."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.message_factory import GetMessageClass

from srl_envs.errors import EnvConfigError
from srl_envs.remote.errors import RemoteError, WireError
from srl_envs.remote.protocol import environments_pb2 as pb
from srl_envs.remote.values import to_value
from srl_envs.untrusted import printable
from srl_envs.validation import is_loopback

TOKEN_VARIABLE = "SRL_ENV_TOKEN"
CERTIFICATE_VARIABLE = "SRL_ENV_CERTIFICATE"
SERVICE = pb.DESCRIPTOR.services_by_name["Environments"]
MOST_BYTES = 64 * 2**20
"""Of one reply."""
PARTING = 2.0
"""Seconds that calls nobody waits for have when the connection is closed."""
RETRIES = {
    "methodConfig": [
        {
            "name": [{"service": SERVICE.full_name}],
            # Every call may be sent again: a turn's number says which it is. gRPC does it.
            "retryPolicy": {
                "maxAttempts": 5,
                "initialBackoff": "0.1s",
                "maxBackoff": "2s",
                "backoffMultiplier": 2,
                "retryableStatusCodes": ["UNAVAILABLE"],
            },
        }
    ]
}
"""Of calls whose connection was lost, as gRPC's service configuration has it."""


@dataclass(frozen=True)
class PlayedGame:
    """One whole game that a server played."""

    seed: int
    turns: int
    returns: Mapping[str, float]
    """Agent -> sum of its rewards."""
    record: str
    """The game as a line of JSON (srl_agents.episode.from_json)."""


class Connection:
    """A connection to the server at `address`, "host:port"; see `connect`."""

    def __init__(
        self,
        address: str,
        *,
        token: str | None = None,
        certificate: str | Path | None = None,
        timeout: float = 60.0,
    ) -> None:
        self.address = address
        self.timeout = timeout
        host, colon, port = address.rpartition(":")
        if not (colon and host and port.isdecimal()):
            raise EnvConfigError(f"an address is HOST:PORT, got {address!r:.200}")
        token = os.environ.get(TOKEN_VARIABLE) if token is None else token
        certificate = certificate or os.environ.get(CERTIFICATE_VARIABLE)
        self._metadata = [("authorization", f"Bearer {token.strip()}")] if token else []
        options = [
            ("grpc.max_receive_message_length", MOST_BYTES),
            ("grpc.service_config", json.dumps(RETRIES)),
            # A proxy cannot reach this machine's own addresses.
            ("grpc.enable_http_proxy", int(not is_loopback(host))),
        ]
        if certificate is not None:
            self._channel = grpc.secure_channel(address, _trusting(Path(certificate)), options)
        elif is_loopback(host):
            self._channel = grpc.insecure_channel(address, options)
        else:
            raise EnvConfigError(
                f"{address} is another machine, and calls would not be encrypted: give "
                f"certificate= (or {CERTIFICATE_VARIABLE}), the PEM file that vouches for it, or "
                "'system' for the system's authorities"
            )
        self._sent: set[Any] = set()
        self._closed = False
        self._calls = {method.name: self._call_of(method) for method in SERVICE.methods}

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; what sessions are still open end by their leases."""
        for sent in list(self._sent):
            with suppress(grpc.RpcError, grpc.FutureTimeoutError, grpc.FutureCancelledError):
                sent.result(timeout=PARTING)
        self._closed = True
        self._channel.close()

    def describe(self, timeout: float | None = None) -> pb.ServerDescription:
        """What the server offers: environments, policies, limits, and what it has refused."""
        return self.call("Describe", pb.DescribeRequest(), timeout)

    def open(self, name: str, options: Mapping[str, Any], copies: int = 1) -> pb.OpenReply:
        """New sessions of an environment of the server's."""
        request = pb.OpenRequest(environment=name, options=to_value(options), copies=copies)
        reply: pb.OpenReply = self.call("Open", request)
        if len(reply.sessions) != copies:
            raise WireError(f"{len(reply.sessions)} sessions were opened, not {copies}")
        return reply

    def play(
        self,
        name: str,
        players: Mapping[str, str],
        seeds: Sequence[int],
        **options: Any,
    ) -> Iterator[PlayedGame]:
        """Whole games of the environment `name`, made with `options`, one from each seed: the
        server plays each agent with the policy that `players` names for it. Raises RemoteError, and
        WireError for other games than those."""
        request = pb.PlayRequest(
            environment=name, options=to_value(options), players=players, seeds=seeds
        )
        with _told(self.address):
            games = self._calls["Play"](request, metadata=self._metadata, wait_for_ready=True)
            asked = iter(seeds)
            for game in games:
                if game.seed != next(asked, None):
                    games.cancel()
                    raise WireError(f"a game of seed {game.seed} came that was not asked for")
                yield PlayedGame(game.seed, game.turns, dict(game.returns), game.record)
            if next(asked, None) is not None:
                raise WireError("fewer games came than were asked for")

    def call(self, method: str, request: Any, timeout: float | None = None) -> Any:
        """The reply to one call, sent again where the connection is lost. Raises RemoteError."""
        with _told(self.address):
            return self._calls[method](
                request,
                timeout=timeout or self.timeout,
                metadata=self._metadata,
                wait_for_ready=True,
            )

    def advance(self, method: str, sessions: Sequence[Any]) -> list[pb.Frame]:
        """The frames of a Reset or a Step, one for each session; see `call`.

        A frame may be refused while others are played: see `refuse`.
        """
        requests = {"Reset": pb.ResetRequest, "Step": pb.StepRequest}
        frames = list(self.call(method, requests[method](sessions=sessions)).frames)
        if len(frames) != len(sessions):
            raise WireError(f"{len(frames)} frames came for {len(sessions)} sessions")
        return frames

    def send(self, method: str, request: Any) -> None:
        """Send a call and wait for nothing; where the connection is closed, nothing is sent."""
        if self._closed:
            return
        sent = self._calls[method].future(request, timeout=self.timeout, metadata=self._metadata)
        self._sent.add(sent)  # gRPC cancels calls whose future nobody holds
        sent.add_done_callback(self._sent.discard)

    def stream(self, requests: Iterator[pb.StepRequest]) -> Iterator[pb.Frames]:
        """The replies to steps on one stream. Raises grpc.RpcError as gRPC does."""
        replies: Iterator[pb.Frames] = self._calls["Stream"](requests, metadata=self._metadata)
        return replies

    def _call_of(self, method: Any) -> Any:
        shape = (
            f"{'stream' if method.client_streaming else 'unary'}_"
            f"{'stream' if method.server_streaming else 'unary'}"
        )
        return getattr(self._channel, shape)(
            f"/{SERVICE.full_name}/{method.name}",
            request_serializer=GetMessageClass(method.input_type).SerializeToString,
            response_deserializer=GetMessageClass(method.output_type).FromString,
        )


def refuse(frame: pb.Frame) -> None:
    """Raise RemoteError where nothing was played in a session."""
    if frame.HasField("refusal"):
        codes = {code.value[0]: code.name for code in grpc.StatusCode}
        told = printable(frame.refusal.message, multiline=False)
        raise RemoteError(told, codes.get(frame.refusal.code, "UNKNOWN"))


def _trusting(certificate: Path) -> Any:
    if str(certificate) == "system":
        return grpc.ssl_channel_credentials()
    try:
        return grpc.ssl_channel_credentials(certificate.read_bytes())
    except OSError as error:
        raise EnvConfigError(f"the certificate cannot be read: {error}") from error


@contextmanager
def _told(address: str) -> Iterator[None]:
    """gRPC's errors within, as RemoteError of one line."""
    try:
        yield
    except grpc.RpcError as error:
        code, details = error.code(), str(error.details())
        told = printable(" ".join(details.split()), multiline=False)
        if code is grpc.StatusCode.DEADLINE_EXCEEDED and "Deadline" in details:
            told = (
                f"no answer in time ({told}); is an environment server there? One with TLS wants "
                f"certificate= or {CERTIFICATE_VARIABLE}, one without it neither"
            )
        raise RemoteError(f"{address}: {told}", code.name) from error
