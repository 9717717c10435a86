"""gRPC client: connections to servers, and their environments as PettingZoo ParallelEnvs."""

from __future__ import annotations

import json
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property, lru_cache
from typing import Any

import grpc
from google.protobuf.message_factory import GetMessageClass
from pettingzoo import ParallelEnv

import srl_extensions.remote.environments_pb2 as pb
from srl_envs import loading, registry
from srl_envs.errors import EnvConfigError, EnvError, UntrustedError
from srl_envs.records import read_record
from srl_envs.text import SpacesOfAgents, TextView
from srl_envs.validation import Reset, Step, asks_nothing, is_loopback, reset_arguments
from srl_extensions.remote.messages import (
    RESULTS,
    Description,
    RemoteError,
    from_space,
    pack,
    pack_actions,
    unpack_outcome,
)
from srl_train.run_files import versions

SERVICE = pb.DESCRIPTOR.services_by_name["Environments"]
GREETING = 10.0
"""Time limit of the first call in seconds."""
MOST_BYTES = 64 * 2**20
"""Maximum size of a reply."""
CLOSING_SECONDS = 2.0
"""Time limit of a call that ends a session."""
RULES = frozenset({
    "acts", "features", "height", "messages", "obs_mode", "rules", "split", "task", "variant",
    "view_radius", "width",
})  # fmt: skip
"""Attributes of games that policies and reports read; they are the same in all episodes."""


def require_loopback(host: str) -> None:
    """Raise EnvConfigError unless `host` is "localhost" or a loopback address."""
    if not is_loopback(host):
        raise EnvConfigError(
            f"an environment server must have a loopback address such as 127.0.0.1, got {host!r}; "
            "for another machine, use an SSH tunnel or a TLS proxy"
        )


class EnvServer:
    """Connection to an environment server, which the constructor opens and checks.

    Args:
        address: "host:port", with a loopback address as host.
        timeout: Time limit of a call in seconds.

    Raises:
        RemoteError: If no server answers within 10 seconds, or `timeout` if that is less.
        EnvConfigError: If the address is malformed or not a loopback address.
    """

    def __init__(self, address: str, *, timeout: float = 60.0) -> None:
        self.address = address
        self.timeout = timeout
        host, colon, port = address.rpartition(":")
        if not (colon and host and port.isdecimal() and int(port) < 2**16):
            raise EnvConfigError(f"an address is HOST:PORT, got {address!r:.200}")
        require_loopback(host)
        options = [
            ("grpc.max_receive_message_length", MOST_BYTES),
            ("grpc.enable_http_proxy", 0),  # A proxy cannot reach this machine's own addresses.
        ]
        self._channel = grpc.insecure_channel(address, options)
        self._calls = {
            method.name: self._channel.unary_unary(
                f"/{SERVICE.full_name}/{method.name}",
                request_serializer=GetMessageClass(method.input_type).SerializeToString,
                response_deserializer=GetMessageClass(method.output_type).FromString,
            )
            for method in SERVICE.methods
        }
        try:
            self.describe(timeout=min(GREETING, timeout))
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> EnvServer:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection. Sessions that are still open end when their leases run out."""
        self._channel.close()

    def env(self, name: str, **options: Any) -> RemoteEnv:
        """Open a session of an environment on the server; return it as a PettingZoo ParallelEnv.

        Args:
            name: Name of the environment on the server.
            **options: Arguments of the environment.

        Raises:
            RemoteError: If the server cannot be reached or refuses, or an option cannot be sent.
            ValueError: After `close`.
        """
        return RemoteEnv(self, name, options)

    def describe(self, timeout: float | None = None) -> pb.ServerDescription:
        """Return the server's version, environments, and number of open sessions.

        Args:
            timeout: Time limit in seconds, by default the connection's.

        Raises:
            RemoteError: As `call`.
            ValueError: After `close`.
        """
        return self.call("Describe", pb.DescribeRequest(), timeout)

    def call(self, method: str, request: Any, timeout: float | None = None) -> Any:
        """Call a method of the protocol and return the reply message.

        Args:
            method: Name of the method, such as "Step".
            request: Request message of the method, such as a `StepRequest`.
            timeout: Time limit in seconds; None uses that of the connection.

        Raises:
            RemoteError: If the server cannot be reached, refuses, or does not answer in time.
            ValueError: After `close`.
        """
        seconds = timeout or self.timeout
        try:
            return self._calls[method](request, timeout=seconds, wait_for_ready=True)
        except grpc.RpcError as error:
            code, message = error.code(), str(error.details())
            if code is grpc.StatusCode.DEADLINE_EXCEEDED and "Deadline" in message:
                message = (
                    f"no answer in time ({message}); check that an environment server runs there"
                )
            raise RemoteError(f"{self.address}: {message}", code.name) from error

    def end(self, session: str) -> None:
        """End a session; ignore a failed call and a closed connection.

        Args:
            session: Id of the session.
        """
        with suppress(RemoteError, ValueError):  # gRPC raises ValueError after close()
            self.call("Close", pb.CloseRequest(session=session), CLOSING_SECONDS)


class RemoteEnv(SpacesOfAgents, ParallelEnv):  # type: ignore[misc]  # PettingZoo ships no types
    """Environment on a server, whose results equal those of the local environment.

    `text_view` and the attributes in RULES are read from `local`, and raise its errors.
    Constructor, `reset` and `step` raise RemoteError if a call of the server fails.
    """

    render_mode = None

    def __init__(self, server: EnvServer, name: str, options: Mapping[str, Any]) -> None:
        self._server, self._name, self._options = server, name, dict(options)
        self.agents: list[str] = []
        self._begun = False
        described = self._open()
        self.metadata = described.metadata
        self.possible_agents = list(described.observation_spaces)
        observed, acted = described.observation_spaces, described.action_spaces
        self.observation_spaces = {agent: from_space(one) for agent, one in observed.items()}
        self.action_spaces = {agent: from_space(one) for agent, one in acted.items()}
        self.teams, self.talk = described.teams, self._options.get("talk", 0)
        self._described = described
        if described.max_cycles is not None:
            self.max_cycles = described.max_cycles

    @cached_property
    def local(self) -> Any:
        """Same environment, made in this process; EnvError if this fails or releases differ."""
        there, here = self._server.describe().version, versions().get("core-srl", "")
        if there != here:
            raise EnvError(
                f"texts of {self._name} require the same core-srl as {self._server.address}, which "
                f"has {there or 'a source folder'}, got {here or 'a source folder'}"
            )
        return registry.make(self._name, **self._options).unwrapped

    @property
    def text_view(self) -> TextView | None:
        """Text view of `local`, or None if the server has none; raises the errors of `local`."""
        return self.local.text_view if self._described.has_text else None

    def baselines(self) -> dict[str, float]:
        """Return reference policy -> mean reward per agent and step; {} if the game has none."""
        return dict(self._described.baselines or {})

    def __getattr__(self, name: str) -> Any:
        if name in RULES:
            return getattr(self.local, name)
        raise AttributeError(f"{type(self).__name__} has no {name!r}")

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        """Start an episode; return observations and infos by agent. EnvError if this fails.

        If the session has ended, a reset with a `seed` opens a new one; without, it fails.
        """
        seed, given = reset_arguments(seed, options)
        request = pb.ResetRequest(session=self._session, seed=seed, options=pack(dict(given)))
        try:
            frame = self._server.call("Reset", request)
        except RemoteError as error:
            if error.code != "NOT_FOUND" or seed is None:
                raise
            self._open()
            request.session = self._session
            frame = self._server.call("Reset", request)
        self._begun = True
        outcome: Reset = self._received(frame)
        return outcome

    def step(self, actions: Mapping[str, Any]) -> Step:
        """Play a step; return its results by agent. EnvError for wrong actions or a failed call."""
        if asks_nothing(self._begun, self.agents, actions):
            return {}, {}, {}, {}, {}
        request = pb.StepRequest(session=self._session, actions=pack_actions(actions))
        outcome: Step = self._received(self._server.call("Step", request), RESULTS, self.agents)
        return outcome

    def close(self) -> None:
        """End the session on the server; failures of the call are ignored."""
        self._finalizer()

    def _received(
        self, frame: pb.Frame, kinds: Sequence[type] = (), required: Iterable[str] = ()
    ) -> Any:
        self.agents, outcome = unpack_outcome(
            frame.content, kinds, self.observation_spaces, required
        )
        return outcome

    def _open(self) -> Description:
        request = pb.OpenRequest(environment=self._name, options=pack(self._options))
        reply = self._server.call("Open", request)
        self._session = reply.session
        self._finalizer = weakref.finalize(self, self._server.end, self._session)
        self._finalizer.atexit = False
        try:
            return read_record(Description, json.loads(reply.environment))
        except (LookupError, TypeError, ValueError, ArithmeticError, RecursionError) as error:
            raise RemoteError(f"the description is invalid: {error}") from error


connect = EnvServer
_shared = lru_cache(maxsize=64)(connect)


def remote(address: str, name: str, /, **options: Any) -> RemoteEnv:
    """Make an environment on a server as `connect(address).env(name, **options)` does.

    Environments of one address share an open connection.
    """
    return _shared(address).env(name, **options)


def from_url(url: str, /, **options: Any) -> RemoteEnv:
    """Make the environment of "grpc://host:port/name" with the arguments `options`.

    Sets its `made_as` to {"name": name, "options": options}. Raises UntrustedError while an
    untrusted record is read (`loading.closed`), else the errors of `remote`.
    """
    address, slash, name = url.partition("://")[2].partition("/")
    if not (slash and name):
        raise EnvConfigError(f"{url!r:.200} must be grpc://HOST:PORT/NAME, such as .../maze_v0")
    if loading.is_closed():
        raise UntrustedError(
            f"{url!r:.200} is a server that a record names; no connection: {loading.WAY_OUT}"
        )
    env = remote(address, name, **options)
    env.made_as = {"name": name, "options": options}
    return env
