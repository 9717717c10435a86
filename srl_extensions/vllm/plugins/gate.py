"""Gate in front of all endpoints of a vLLM server that other machines reach.

vLLM's own --api-key leaves the endpoints open that pause the server and replace its weights. The
gate requires the key everywhere. A server that has just started lacks the published weights, so
requests for completions are refused (503) until the owner has loaded them and posts to OPEN.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

KEY = "SRL_SERVER_KEY"
"""Environment variable of the key. Command lines are visible to all users of a machine."""
OWNER = "x-srl-owner"
"""Header of the process that publishes weights to the server."""
OPEN = "/gate/open"
Send = Callable[[Any], Awaitable[None]]
Receive = Callable[[], Awaitable[Any]]


class Gate:
    """ASGI middleware that requires a key (vLLM: `--middleware gate.Gate`)."""

    def __init__(
        self, app: Callable[..., Awaitable[None]], environment: Mapping[str, str] = os.environ
    ) -> None:
        """Create the middleware; raise KeyError if `environment` contains no key."""
        self._app, self._key = app, f"Bearer {environment[KEY]}".encode()
        self._opened = False

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Pass an admitted request to the server, or answer it with an error status."""
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close"})
        status = None if scope["type"] == "lifespan" else self.status(scope)
        if status is None:
            return await self._app(scope, receive, send)
        head = {"type": "http.response.start", "status": status}
        await send({**head, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": b"{}"})

    def status(self, scope: Mapping[str, Any]) -> int | None:
        """Return the status that the gate itself answers with, or None to pass the request on."""
        headers = dict(scope["headers"])
        if not hmac.compare_digest(headers.get(b"authorization", b""), self._key):
            return 401
        if scope["path"] == OPEN:
            self._opened = True
            return 200
        if not self._opened and OWNER.encode() not in headers:
            return 503
        return None
