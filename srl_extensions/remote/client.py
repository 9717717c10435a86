"""gRPC client: connections to servers, and environments by address and name."""

from __future__ import annotations

from contextlib import suppress
from functools import lru_cache
from typing import Any

import grpc
from google.protobuf.message_factory import GetMessageClass

import srl_extensions.remote.environments_pb2 as pb
from srl_envs import loading
from srl_envs.errors import EnvConfigError, UntrustedError
from srl_envs.validation import is_loopback
from srl_extensions.remote.errors import RemoteError
from srl_extensions.remote.remote_env import RemoteEnv

SERVICE = pb.DESCRIPTOR.services_by_name["Environments"]
GREETING = 10.0
"""Time limit of the first call in seconds."""
MOST_BYTES = 64 * 2**20
"""Maximum size of a reply."""
CLOSING_SECONDS = 2.0
"""Time limit of a call that ends a session."""


def require_loopback(host: str) -> None:
    """Raise EnvConfigError unless `host` is "localhost" or a loopback address."""
    if not is_loopback(host):
        raise EnvConfigError(
            f"an environment server must have a loopback address such as 127.0.0.1, got {host!r}; "
            "for another machine, use an SSH tunnel (ssh -L 50051:127.0.0.1:50051 HOST) or a TLS "
            "proxy on both sides"
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


connect = EnvServer
_shared = lru_cache(maxsize=64)(connect)


def remote(address: str, name: str, /, **options: Any) -> RemoteEnv:
    """Make an environment on a server. Environments of one address share an open connection.

    Args:
        address: "host:port" of the server.
        name: Name of the environment on the server.
        **options: Arguments of the environment.

    Raises:
        RemoteError: If no server answers, it refuses, or an option cannot be sent.
        EnvConfigError: For a bad address, and for an address of another machine.
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
