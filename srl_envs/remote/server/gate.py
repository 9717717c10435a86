"""Gate of a server: authenticates, counts and reads every call, and answers or refuses it."""

from __future__ import annotations

import asyncio
import hmac
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from inspect import isawaitable
from typing import Any

import grpc
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass

from srl_envs.remote.connection import SERVICE, TOKEN_VARIABLE
from srl_envs.remote.errors import WireError
from srl_envs.remote.protocol import environments_pb2 as pb
from srl_envs.remote.server.refusals import Refused

MESSAGE_BYTES = 4 * 2**20
"""Of one request. gRPC itself refuses those of more than twice as many, uncounted, as they come."""
MOST_CALLS = 1024
"""Maximum number of concurrent calls of one client."""
SILENT_SECONDS = 5.0
"""Seconds within which the message of a call must arrive."""
HEALTH_CHECK = "/grpc.health.v1.Health/Check"
"""The only method without authentication."""


class Gate(grpc.GenericRpcHandler, grpc.aio.ServerInterceptor):  # type: ignore[misc]  # no types
    """The calls of the service, each led to the method of `servicer` that is named after it.

    A method takes the message and the client's name, and gives the reply or, where the call is
    answered by a stream, an async iterator of replies; `Stream` takes an iterator of messages. It
    raises Refused for what it refuses, and WireError for what is no message of the protocol.
    Clients are told apart by their tokens, compared in constant time; without tokens, by host.

    As an interceptor, the gate admits the calls of every service of the server, health and
    reflection included.
    """

    def __init__(self, tokens: Collection[str]) -> None:
        self._tokens = [f"Bearer {token}".encode("ascii") for token in tokens]
        self.refused: Counter[str] = Counter()
        self._calls: Counter[str] = Counter()
        self._handlers: dict[str, Any] = {}

    def leading_to(self, servicer: Any) -> Gate:
        """This gate, before the methods of `servicer`."""
        self._handlers = {
            f"/{SERVICE.full_name}/{method.name}": self._handler(method, servicer)
            for method in SERVICE.methods
        }
        return self

    def service(self, handler_call_details: Any) -> Any:
        """The handler of a call; None for one that the service has not."""
        return self._handlers.get(handler_call_details.method)

    async def intercept_service(self, continuation: Any, handler_call_details: Any) -> Any:
        """Return a handler that admits the call before its message arrives.

        gRPC reads the message of a unary call before it runs the handler, without a deadline.
        Therefore this handler takes a stream for every method, which is the same on the wire.
        """
        handler = await continuation(handler_call_details)
        if handler is None:
            return None
        name = _host if handler_call_details.method == HEALTH_CHECK else self._authenticated

        @asynccontextmanager
        async def admitted(context: Any) -> AsyncIterator[Any]:
            try:
                with self._counted(name(context)):
                    yield None if handler.request_streaming else await _message(context)
            except (Refused, WireError) as error:
                await self._abort(context, error)

        async def single(_: Any, context: Any) -> Any:
            async with admitted(context) as message:
                return await handler.unary_unary(message, context)

        async def several(requests: Any, context: Any) -> AsyncIterator[Any]:
            async with admitted(context) as message:
                if handler.request_streaming:
                    replies = handler.stream_stream(requests, context)
                else:
                    replies = handler.unary_stream(message, context)
                if isawaitable(replies):  # the handler writes to the context itself
                    await replies
                    return
                async for reply in replies:
                    yield reply

        codecs = handler.request_deserializer, handler.response_serializer
        if handler.response_streaming:
            return grpc.stream_stream_rpc_method_handler(several, *codecs)
        return grpc.stream_unary_rpc_method_handler(single, *codecs)

    def refuse(self, refusal: Refused) -> pb.Refusal:
        """Count a refusal, as the message for one session among several."""
        self.refused[refusal.reason] += 1
        return pb.Refusal(code=refusal.code.value[0], message=str(refusal))

    def _handler(self, method: Any, servicer: Any) -> Any:
        answer = getattr(servicer, method.name.lower())
        request = GetMessageClass(method.input_type)
        # Messages are read here, not by gRPC, so that what cannot be read is refused like the rest.
        if method.client_streaming:
            each = partial(_read_each, request)
            return grpc.stream_stream_rpc_method_handler(self._several(answer, each))
        read = partial(_read, request)
        if method.server_streaming:
            return grpc.unary_stream_rpc_method_handler(self._several(answer, read))
        return grpc.unary_unary_rpc_method_handler(self._single(answer, read))

    def _single(self, answer: Callable[..., Any], read: Callable[..., Any]) -> Callable[..., Any]:
        async def call(data: bytes, context: Any) -> bytes:
            reply = await answer(read(data), self._authenticated(context))
            serialized: bytes = reply.SerializeToString()
            return serialized

        return call

    def _several(self, answer: Callable[..., Any], read: Callable[..., Any]) -> Callable[..., Any]:
        async def call(data: Any, context: Any) -> AsyncIterator[bytes]:
            async for reply in answer(read(data), self._authenticated(context)):
                yield reply.SerializeToString()

        return call

    def _authenticated(self, context: Any) -> str:
        """Return the client's name."""
        if not self._tokens:
            return _host(context)
        given = dict(context.invocation_metadata()).get("authorization", "")
        told = given if isinstance(given, bytes) else given.encode("utf-8", "surrogateescape")
        # All are looked at, whichever is the one: the time says nothing.
        found = [hmac.compare_digest(told, token) for token in self._tokens]
        if not any(found):
            raise Refused(
                "UNAUTHENTICATED", "unauthenticated",
                f"a token is needed that this server knows: token= or {TOKEN_VARIABLE} in Python, "
                "elsewhere the metadata `authorization: Bearer TOKEN`",
            )  # fmt: skip
        return f"token {found.index(True)}"

    @contextmanager
    def _counted(self, client: str) -> Iterator[None]:
        """Count the call while it runs. Raises Refused for a client with too many calls."""
        if self._calls[client] >= MOST_CALLS:
            raise Refused(
                "RESOURCE_EXHAUSTED", "too many calls",
                f"a client must have at most {MOST_CALLS} calls at once, got another",
            )  # fmt: skip
        self._calls[client] += 1
        try:
            yield
        finally:
            self._calls[client] -= 1
            if not self._calls[client]:
                del self._calls[client]

    async def _abort(self, context: Any, error: Refused | WireError) -> None:
        if isinstance(error, WireError):
            error = Refused("INVALID_ARGUMENT", "malformed", error)
        self.refused[error.reason] += 1
        await context.abort(error.code, str(error))


def _host(context: Any) -> str:
    return str(context.peer()).rpartition(":")[0]


async def _message(context: Any) -> Any:
    """Return the message of a unary call. Raises Refused for a call that sends none in time."""
    try:
        async with asyncio.timeout(SILENT_SECONDS):
            message = await context.read()
    except TimeoutError as error:
        raise Refused(
            "DEADLINE_EXCEEDED", "silent", f"no message came within {SILENT_SECONDS:g} s"
        ) from error
    if message is grpc.aio.EOF:
        raise WireError("the call has no message")
    return message


async def _read_each(request: Any, datas: AsyncIterator[bytes]) -> AsyncIterator[Any]:
    async for data in datas:
        yield _read(request, data)


def _read(request: Any, data: bytes) -> Any:
    if len(data) > MESSAGE_BYTES:
        raise Refused(
            "RESOURCE_EXHAUSTED", "oversized",
            f"a request of {len(data)} bytes, at most {MESSAGE_BYTES} are read",
        )  # fmt: skip
    try:
        return request.FromString(data)
    except DecodeError as error:
        raise WireError(f"{len(data)} bytes are no {request.DESCRIPTOR.name}") from error
