"""The gRPC server of environments: started, drained and ended."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from threading import Thread
from typing import Any

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from srl_envs.errors import EnvConfigError
from srl_envs.remote.connection import SERVICE
from srl_envs.remote.server.gate import MESSAGE_BYTES, Gate
from srl_envs.remote.server.service import Player, Service
from srl_envs.remote.server.settings import ServerSettings

OPTIONS = {
    "grpc.max_receive_message_length": 2 * MESSAGE_BYTES,  # see MESSAGE_BYTES
    "grpc.max_metadata_size": 16 * 2**10,
    "grpc.so_reuseport": 0,  # a port that is taken is an error
    # Pings: ours find clients that are gone, and those that ping too often are cut off.
    "grpc.keepalive_time_ms": 60_000,
    "grpc.keepalive_timeout_ms": 20_000,
    "grpc.http2.min_ping_interval_without_data_ms": 30_000,
    "grpc.http2.max_ping_strikes": 2,
}


@dataclass
class Serving:
    """A server that runs."""

    address: str
    """host:port, with the port that was taken."""
    service: Service
    refused: Counter[str]
    """Reason -> calls and sessions refused so far."""


@asynccontextmanager
async def serving(
    settings: ServerSettings, player: Player | None = None, drain: float = 10.0
) -> AsyncIterator[Serving]:
    """A server within; at the end it takes no more calls, and those under way have `drain` seconds.

    `player` plays whole games for the call Play. Raises EnvConfigError where the address cannot be
    taken, or the certificate not be read.
    """
    gate = Gate(settings.tokens)
    # gRPC's own limit, maximum_concurrent_rpcs, counts calls that are not authenticated yet.
    server = grpc.aio.server(interceptors=(gate,), options=list(OPTIONS.items()))
    service = Service(settings, gate, player)
    server.add_generic_rpc_handlers((gate.leading_to(service),))
    checks = health.aio.HealthServicer()
    health_pb2_grpc.add_HealthServicer_to_server(checks, server)
    reflection.enable_server_reflection(
        (SERVICE.full_name, health.SERVICE_NAME, reflection.SERVICE_NAME), server
    )
    port = _bind(server, settings)
    await server.start()
    await checks.set(SERVICE.full_name, health_pb2.HealthCheckResponse.SERVING)
    expiry = asyncio.ensure_future(service.end_expired())
    try:
        yield Serving(f"{settings.host}:{port}", service, gate.refused)
    finally:
        await checks.enter_graceful_shutdown()
        service.draining.set()
        await server.stop(drain)
        expiry.cancel()
        await service.end()


@contextmanager
def in_thread(
    settings: ServerSettings, player: Player | None = None, drain: float = 1.0
) -> Iterator[Serving]:
    """As `serving`, in a thread of this process: for notebooks, tests and measurements."""
    started: Future[Serving] = Future()
    over = asyncio.Event()

    async def serve() -> None:
        async with serving(settings, player, drain) as running:
            started.set_result(running)
            await over.wait()

    loop = asyncio.new_event_loop()

    def run() -> None:
        try:
            loop.run_until_complete(serve())
        except BaseException as error:
            if started.done():
                raise
            started.set_exception(error)
            if not isinstance(error, Exception):
                raise
        finally:
            loop.close()

    thread = Thread(target=run, name="environment-server")
    thread.start()
    try:
        yield started.result()
    finally:
        if not loop.is_closed():
            loop.call_soon_threadsafe(over.set)
        thread.join()


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
            f"cannot serve at {address} ({str(error).partition(';')[0]}): is the host this "
            "machine's, the port free (0 takes one that is), and are certificate and key a pair?"
        ) from error
