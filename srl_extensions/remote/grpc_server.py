"""gRPC server of environments: admission of calls, the calls themselves, start and end."""

from __future__ import annotations

import asyncio
import hmac
import json
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

import srl_extensions.remote.environments_pb2 as pb
from srl_agents.event_loop import LoopThread
from srl_envs.errors import EnvConfigError
from srl_envs.records import as_record
from srl_extensions.remote.client import SERVICE, TOKEN_VARIABLE
from srl_extensions.remote.errors import RemoteError
from srl_extensions.remote.messages import (
    Description,
    pack_outcome,
    to_space,
    unpack_actions,
    unpack_options,
)
from srl_extensions.remote.sessions import Sessions
from srl_extensions.remote.settings import ServerSettings
from srl_train.run_files import versions

MESSAGE_BYTES = 4 * 2**20
"""Maximum size of a request."""
MOST_CALLS = 1024
"""Maximum number of concurrent calls of one client."""
SILENT_SECONDS = 5.0
"""Seconds within which the message of a call must arrive."""
DRAIN = 10.0
OPTIONS = {
    "grpc.max_receive_message_length": MESSAGE_BYTES,
    "grpc.max_metadata_size": 16 * 2**10,
    "grpc.so_reuseport": 0,  # a port that is taken is an error
}


class Service:
    """Admission of calls, and the protocol's methods, each named in lower case.

    Calls are authenticated, counted and limited before their message is read. Clients are
    distinguished by their tokens, compared in constant time; without tokens, by host. Methods raise
    RemoteError for a refused call.
    """

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self._tokens = [f"Bearer {token}".encode("ascii") for token in settings.tokens]
        self.sessions = Sessions(settings)
        self.calls: Counter[str] = Counter()
        """Client -> number of calls that are being answered."""

    def handler(self, method: Any) -> Any:
        """Return the gRPC handler of a method of the protocol, given by its descriptor.

        A RemoteError becomes the call's status. The handler takes a stream, which is the same on
        the wire, because gRPC reads unary messages before it runs the handler, without a deadline.
        """
        kind, write = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        answer = getattr(self, method.name.lower())

        async def handle(_: Any, context: Any) -> Any:
            try:
                with self._admitted(context) as client:
                    return await answer(await _message(kind, context), client)
            except RemoteError as refused:
                await context.abort(grpc.StatusCode[refused.code], str(refused))

        return grpc.stream_unary_rpc_method_handler(
            handle, response_serializer=write.SerializeToString
        )

    @contextmanager
    def _admitted(self, context: Any) -> Iterator[str]:
        """Yield the client of a call, by token or host; `calls` counts the call during the body.

        Raises RemoteError if the call has no valid token, or its client has 1024 calls.
        """
        client = self._authenticated(context)
        if self.calls[client] >= MOST_CALLS:
            message = f"a client must have at most {MOST_CALLS} calls at once, got another"
            raise RemoteError(message, "RESOURCE_EXHAUSTED")
        self.calls[client] += 1
        try:
            yield client
        finally:
            self.calls[client] -= 1
            if not self.calls[client]:
                del self.calls[client]

    def _authenticated(self, context: Any) -> str:
        """Return "token NUMBER" from 0, or the host without tokens; RemoteError if none matches."""
        if not self._tokens:
            return str(context.peer()).rpartition(":")[0]
        given = dict(context.invocation_metadata()).get("authorization", "")
        sent = given if isinstance(given, bytes) else given.encode("utf-8", "surrogateescape")
        # All tokens are compared, so that the duration reveals nothing.
        found = [hmac.compare_digest(sent, token) for token in self._tokens]
        if not any(found):
            raise RemoteError(
                f"a valid token is required: token= or {TOKEN_VARIABLE} in Python, elsewhere the "
                "metadata `authorization: Bearer TOKEN`",
                "UNAUTHENTICATED",
            )
        return f"token {found.index(True)}"

    async def describe(self, request: pb.DescribeRequest, client: str) -> pb.ServerDescription:
        """Return version, served environments, and number of the client's open sessions."""
        return pb.ServerDescription(
            version=versions().get("core-srl", ""),
            environments=self._settings.environments,
            open_sessions=self.sessions.count(client),
        )

    async def open(self, request: pb.OpenRequest, client: str) -> pb.OpenReply:
        """Open a session; return its id and its Description as JSON. RemoteError if refused."""

        def make() -> tuple[Any, bytes]:
            env = self._settings.make(request.environment, unpack_options(request.options))
            return env, _described(env)

        session, environment = await self.sessions.open(client, make)
        return pb.OpenReply(session=session, environment=environment)

    async def reset(self, request: pb.ResetRequest, client: str) -> pb.Frame:
        """Start an episode of a session; return its packed results. RemoteError if this fails."""

        def act(env: Any) -> bytes:
            seed = request.seed if request.HasField("seed") else None
            options = unpack_options(request.options) if request.options else None
            return pack_outcome(env.reset(seed=seed, options=options), env)

        content = await self.sessions.advance(client, request.session, act)
        return pb.Frame(content=content)

    async def step(self, request: pb.StepRequest, client: str) -> pb.Frame:
        """Play one step of a session; return its packed results. RemoteError if this fails."""

        def act(env: Any) -> bytes:
            return pack_outcome(env.step(unpack_actions(request.actions)), env)

        content = await self.sessions.advance(client, request.session, act)
        return pb.Frame(content=content)

    async def close(self, request: pb.CloseRequest, client: str) -> pb.CloseReply:
        """End a session of the client and close its environment; do nothing if there is none."""
        await self.sessions.close(client, request.session)
        return pb.CloseReply()


@dataclass(frozen=True)
class Serving:
    """A running server."""

    address: str
    """host:port, with the port in use."""
    service: Service


@asynccontextmanager
async def serving(settings: ServerSettings) -> AsyncIterator[Serving]:
    """Run a server in the context, and yield its Serving.

    At the end, calls have 10 seconds, and sessions end. Raises EnvConfigError if the address is
    not available, or the certificate cannot be read.
    """
    # gRPC's own limit, maximum_concurrent_rpcs, counts calls that are not authenticated yet.
    server = grpc.aio.server(options=list(OPTIONS.items()))
    service = Service(settings)
    methods = {method.name: service.handler(method) for method in SERVICE.methods}
    handlers = grpc.method_handlers_generic_handler(SERVICE.full_name, methods)
    server.add_generic_rpc_handlers((handlers,))
    port = _bind(server, settings)
    await server.start()
    try:
        yield Serving(f"{settings.host}:{port}", service)
    finally:
        await server.stop(DRAIN)
        await service.sessions.end()


@contextmanager
def in_thread(settings: ServerSettings) -> Iterator[Serving]:
    """Run a server in a thread during the context, yield its Serving; errors as `serving`.

    Args:
        settings: Settings of the server.
    """
    thread, server = LoopThread("environment-server"), serving(settings)
    try:
        running = thread.submit(server.__aenter__()).result()
        try:
            yield running
        finally:
            thread.submit(server.__aexit__(None, None, None)).result()
    finally:
        thread.close()


async def _message(kind: Any, context: Any) -> Any:
    try:
        async with asyncio.timeout(SILENT_SECONDS):
            data = await context.read()
    except TimeoutError as error:
        message = f"no message came within {SILENT_SECONDS:g} s"
        raise RemoteError(message, "DEADLINE_EXCEEDED") from error
    if data is grpc.aio.EOF:
        raise RemoteError("the call has no message")
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise RemoteError(f"{len(data)} bytes are not a {kind.DESCRIPTOR.name}") from error


def _bind(server: Any, settings: ServerSettings) -> int:
    address = f"{settings.host}:{settings.port}"
    try:
        if settings.certificate is None or settings.key is None:
            return int(server.add_insecure_port(address))
        pair = settings.key.read_bytes(), settings.certificate.read_bytes()
        return int(server.add_secure_port(address, grpc.ssl_server_credentials([pair])))
    except OSError as error:
        raise EnvConfigError(f"the certificate cannot be read: {error}") from error
    except RuntimeError as error:
        raise EnvConfigError(
            f"cannot serve at {address} ({str(error).partition(';')[0]}): check that the host is "
            "this machine's, the port free (0 takes a free one), and that certificate and key match"
        ) from error


def _described(env: Any) -> bytes:
    game, agents = env.unwrapped, env.possible_agents
    description = Description(
        observation_spaces={agent: to_space(env.observation_space(agent)) for agent in agents},
        action_spaces={agent: to_space(env.action_space(agent)) for agent in agents},
        metadata=env.metadata,
        teams=getattr(game, "teams", None),
        baselines=getattr(game, "baselines", lambda: None)(),
        max_cycles=getattr(game, "max_cycles", None),
        has_text=hasattr(game, "text_view"),
    )
    return json.dumps(as_record(Description, description)).encode()
