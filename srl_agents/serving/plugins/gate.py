"""Gate in front of all of a vLLM server's endpoints: two keys, and guests wait until it is opened.

vLLM's own --api-key leaves those endpoints open that pause the server and give it other weights.
The owner's key opens every one of them; the guests' key those that sample, once the owner has said
(POST /gate/open) that everything they may ask for is loaded. Until then, and so after every start,
guests hear that the server is not there yet (503).
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

OWNER_KEY, GUEST_KEY = "SRL_OWNER_KEY", "SRL_GUEST_KEY"
"""Environment variables that hold them; a command line would show them to everybody."""
OPEN = "/gate/open"
FOR_GUESTS = frozenset({"/health", "/v1/models", "/v1/completions"})
Send = Callable[[Any], Awaitable[None]]
Receive = Callable[[], Awaitable[Any]]


class Gate:
    """vLLM: `--middleware gate.Gate` (ASGI)."""

    def __init__(
        self, app: Callable[..., Awaitable[None]], environment: Mapping[str, str] = os.environ
    ) -> None:
        """Raises KeyError where the environment holds no keys."""
        self._app = app
        self._owner, self._guest = (
            f"Bearer {environment[name]}".encode() for name in (OWNER_KEY, GUEST_KEY)
        )
        self._opened = False

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Pass on what may come in, and answer the rest."""
        if scope["type"] == "lifespan":
            return await self._app(scope, receive, send)
        if scope["type"] == "websocket":
            return await send({"type": "websocket.close"})
        status = self._status(scope)
        if status is None:
            return await self._app(scope, receive, send)
        head = {"type": "http.response.start", "status": status}
        await send({**head, "headers": [(b"content-type", b"application/json")]})
        await send({"type": "http.response.body", "body": b"{}"})

    def _status(self, scope: Mapping[str, Any]) -> int | None:
        """What is answered here; None for what goes on to the server."""
        given = dict(scope["headers"]).get(b"authorization", b"")
        if hmac.compare_digest(given, self._owner):
            if scope["path"] != OPEN:
                return None
            self._opened = True
            return 200
        if not hmac.compare_digest(given, self._guest):
            return 401
        if not self._opened:
            return 503
        return None if scope["path"] in FOR_GUESTS else 403
