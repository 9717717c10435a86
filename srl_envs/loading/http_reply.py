"""Bounded HTTP replies for clients that need no SDK."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Mapping


def read_reply(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    *,
    seconds: float,
    most_bytes: int,
    body: str | None = None,
    headers: Mapping[str, str] | None = None,
) -> tuple[int, bytes]:
    """Send a request on a new connection and return the status and the body of the reply.

    Args:
        connection: A connection that is not open yet; it is closed at the end.
        seconds: Limit of the whole exchange after the connection is open.
        most_bytes: Limit of the body. A longer one is cut somewhat above the limit.

    Raises:
        TimeoutError: The reply is not complete in time.
        OSError: The server is not reachable.
        http.client.HTTPException: The reply is not HTTP.
    """
    with contextlib.closing(connection):
        connection.connect()
        # A socket's own timeout is for each piece, so slow pieces would never end.
        late = threading.Timer(seconds, _hang_up, [connection.sock])
        late.daemon = True
        late.start()
        try:
            connection.request(method, path, body, dict(headers or {}))
            reply = connection.getresponse()
            content = bytearray()
            # A chunk may state a length of -1 bytes, which read(n) would read without a limit.
            while len(content) <= most_bytes and (piece := reply.read1(most_bytes)):
                content += piece
        except (OSError, http.client.HTTPException):
            if not late.finished.is_set():
                raise
        finally:
            in_time = not late.finished.is_set()
            late.cancel()
        if not in_time:
            raise TimeoutError(f"no complete reply within {seconds:g} s")
        return reply.status, bytes(content)


def _hang_up(connected: socket.socket) -> None:
    with contextlib.suppress(OSError):  # closed by now
        connected.shutdown(socket.SHUT_RDWR)
