"""gRPC server of environments: its settings, calls, start and end."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

import srl_extensions.remote.environments_pb2 as pb
from srl_agents.event_loop import LoopThread
from srl_envs import loading, registry, scenarios
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.games.base import step_baselines
from srl_envs.records import as_record
from srl_envs.tasks.multitask import Multitask
from srl_envs.validation import entries_of, nearest, set_fields, whole_number
from srl_extensions.remote.client import SERVICE, require_loopback
from srl_extensions.remote.messages import (
    Description,
    RemoteError,
    pack_outcome,
    to_space,
    unpack_actions,
    unpack_options,
)
from srl_extensions.remote.sessions import SessionLimits, Sessions
from srl_train.run_files import versions

MESSAGE_BYTES = 4 * 2**20
"""Maximum size of a request."""
MOST_CALLS = 1024
"""Maximum number of concurrent calls."""
DRAIN = 10.0
OPTIONS = {
    "grpc.max_receive_message_length": MESSAGE_BYTES,
    "grpc.max_metadata_size": 16 * 2**10,
    "grpc.so_reuseport": 0,  # a port that is taken is an error
}


@dataclass(frozen=True, kw_only=True)
class ServerSettings(SessionLimits):
    """Settings of a gRPC server of environments.

    Raises:
        EnvConfigError: For values that are not allowed, such as a host that other machines reach.
    """

    environments: Sequence[str]
    """Names of the catalogue, or 'module:function' for own environments."""
    host: str = "127.0.0.1"
    """Loopback address. Every process of this machine has access."""
    port: int = 0
    """Port; 0 takes a free one."""

    def __post_init__(self) -> None:
        super().__post_init__()
        names = entries_of("environments", self.environments)
        if not names:
            raise EnvConfigError(f"environments: name some of {', '.join(registry.names())}")
        for name in names:
            if isinstance(name, str) and ":" in name:
                loading.code(name)
            else:
                registry.entry(name)
        whole_number("port", self.port, 0, 2**16 - 1)
        require_loopback(self.host)
        set_fields(self, environments=names)

    def make(self, name: str, options: dict[str, Any]) -> Any:
        """Make an environment for a client.

        Args:
            name: Name of the environment, one of `environments`.
            options: Keyword arguments of its constructor, from the client.

        Raises:
            RemoteError: If an environment is not served, or options are refused by the constructor,
                are too large, name files or foreign code, request pictures, or select held-out
                levels.
        """
        self._require(name)
        if options.get("render_mode") is not None:
            raise RemoteError("render_mode must be None: pictures are not sent")
        own = tuple(name for name in self.environments if ":" in name)
        try:
            env = registry.remake(name, options, allowing=own)
        except (EnvError, ImportError) as error:
            # The advice in the error is for the owner of a record, not for a client.
            raise RemoteError(str(error).removesuffix(f": {loading.WAY_OUT}")) from error
        if isinstance(env.unwrapped, Multitask):
            for member in env.unwrapped.named.values():
                self._require(member["name"])
        try:
            scenarios.refuse_levels("environment", name, options, env)
        except EnvError as error:
            raise RemoteError(error, "PERMISSION_DENIED") from error
        return env

    def _require(self, name: str) -> None:
        if name not in self.environments:
            raise RemoteError(
                f"{name!r:.100} is not offered here{nearest(name[:100], self.environments)}",
                "PERMISSION_DENIED",
            )


class Service:
    """Calls of the gRPC protocol, as methods in lower case that raise RemoteError to refuse."""

    def __init__(self, settings: ServerSettings) -> None:
        self._settings = settings
        self.sessions = Sessions(settings)
        self.address = ""
        """host:port, with the port in use; empty until the server runs."""

    def handler(self, method: Any) -> Any:
        """Return the gRPC handler of a method of the protocol, given by its descriptor.

        A RemoteError or an invalid request becomes the status of the call.
        """
        kind, write = GetMessageClass(method.input_type), GetMessageClass(method.output_type)
        answer = getattr(self, method.name.lower())

        async def handle(data: bytes, context: Any) -> Any:
            try:
                message = kind.FromString(data)
            except DecodeError:
                text = f"{len(data)} bytes are not a {kind.DESCRIPTOR.name}"
                await context.abort(grpc.StatusCode.INVALID_ARGUMENT, text)
            try:
                return await answer(message)
            except RemoteError as refused:
                await context.abort(grpc.StatusCode[refused.code], str(refused))

        return grpc.unary_unary_rpc_method_handler(
            handle, response_serializer=write.SerializeToString
        )

    async def describe(self, request: pb.DescribeRequest) -> pb.ServerDescription:
        """Return version ("" if not installed), environments, and number of open sessions."""
        return pb.ServerDescription(
            version=versions().get("core-srl", ""),
            environments=self._settings.environments,
            open_sessions=len(self.sessions.open_sessions),
        )

    async def open(self, request: pb.OpenRequest) -> pb.OpenReply:
        """Open a session; return its id and its Description as JSON. RemoteError if refused."""

        def make() -> tuple[Any, bytes]:
            env = self._settings.make(request.environment, unpack_options(request.options))
            game, agents = env.unwrapped, env.possible_agents
            description = Description(
                observation_spaces={one: to_space(env.observation_space(one)) for one in agents},
                action_spaces={one: to_space(env.action_space(one)) for one in agents},
                metadata=env.metadata,
                teams=getattr(game, "teams", None),
                baselines=step_baselines(game),
                max_cycles=getattr(game, "max_cycles", None),
                has_text=hasattr(game, "text_view"),
            )
            return env, json.dumps(as_record(Description, description)).encode()

        session, environment = await self.sessions.open(make)
        return pb.OpenReply(session=session, environment=environment)

    async def reset(self, request: pb.ResetRequest) -> pb.Frame:
        """Reset a session's environment; return its `pack_outcome`. RemoteError if this fails."""

        def act(env: Any) -> bytes:
            seed = request.seed if request.HasField("seed") else None
            options = unpack_options(request.options) if request.options else None
            return pack_outcome(env.reset(seed=seed, options=options), env)

        content = await self.sessions.advance(request.session, act)
        return pb.Frame(content=content)

    async def step(self, request: pb.StepRequest) -> pb.Frame:
        """Step a session's environment; return its `pack_outcome`. RemoteError if this fails."""

        def act(env: Any) -> bytes:
            return pack_outcome(env.step(unpack_actions(request.actions)), env)

        content = await self.sessions.advance(request.session, act)
        return pb.Frame(content=content)

    async def close(self, request: pb.CloseRequest) -> pb.CloseReply:
        """End a session as `Sessions.close`; ignore an unknown session."""
        await self.sessions.close(request.session)
        return pb.CloseReply()


@asynccontextmanager
async def serving(settings: ServerSettings) -> AsyncIterator[Service]:
    """Run a server during the context, and yield its Service.

    At the end, running calls have 10 seconds to complete; then all sessions end. Raises
    EnvConfigError if the address is not available.
    """
    server = grpc.aio.server(options=list(OPTIONS.items()), maximum_concurrent_rpcs=MOST_CALLS)
    service = Service(settings)
    methods = {method.name: service.handler(method) for method in SERVICE.methods}
    handlers = grpc.method_handlers_generic_handler(SERVICE.full_name, methods)
    server.add_generic_rpc_handlers((handlers,))
    host = f"[{settings.host.strip('[]')}]" if ":" in settings.host else settings.host
    address = f"{host}:{settings.port}"
    try:
        port = server.add_insecure_port(address)
    except RuntimeError as error:
        raise EnvConfigError(
            f"cannot serve at {address} ({str(error).partition(';')[0]}): check that the port is "
            "free (0 takes a free one)"
        ) from error
    await server.start()
    try:
        service.address = f"{host}:{port}"
        yield service
    finally:
        await server.stop(DRAIN)
        await service.sessions.end()


@contextmanager
def in_thread(settings: ServerSettings) -> Iterator[Service]:
    """Run a server in a thread during the context, yield its Service; errors as `serving`.

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
