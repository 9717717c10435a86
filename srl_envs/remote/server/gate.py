"""Gate of a server: every call passes here, is admitted, read, answered or refused, and counted."""

from __future__ import annotations

import hmac
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection
from functools import partial
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


class Gate(grpc.GenericRpcHandler):  # type: ignore[misc]  # grpcio ships no types
    """The calls of the service, each led to the method of `servicer` that is named after it.

    A method takes the message and the client's name, and gives the reply or, where the call is
    answered by a stream, an async iterator of replies; `Stream` takes an iterator of messages. It
    raises Refused for what it refuses, and WireError for what is no message of the protocol.
    Clients are told apart by their tokens, compared in constant time; without tokens, by host.
    """

    def __init__(self, tokens: Collection[str]) -> None:
        self._tokens = [f"Bearer {token}".encode("ascii") for token in tokens]
        self.refused: Counter[str] = Counter()
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
            try:
                client = self._admitted(context)
                reply: bytes = (await answer(read(data), client)).SerializeToString()
                return reply
            except (Refused, WireError) as error:
                await self._abort(context, error)
                raise  # never: abort() has ended the call

        return call

    def _several(self, answer: Callable[..., Any], read: Callable[..., Any]) -> Callable[..., Any]:
        async def call(data: Any, context: Any) -> AsyncIterator[bytes]:
            try:
                client = self._admitted(context)
                async for reply in answer(read(data), client):
                    yield reply.SerializeToString()
            except (Refused, WireError) as error:
                await self._abort(context, error)

        return call

    def _admitted(self, context: Any) -> str:
        """The client's name."""
        if not self._tokens:
            return str(context.peer()).rpartition(":")[0]
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

    async def _abort(self, context: Any, error: Refused | WireError) -> None:
        if isinstance(error, WireError):
            error = Refused("INVALID_ARGUMENT", "malformed", error)
        self.refused[error.reason] += 1
        await context.abort(error.code, str(error))


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
