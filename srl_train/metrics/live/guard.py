"""Guard of the live page's server: who may read, under which names, and what browsers may do."""

from __future__ import annotations

import hmac
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from srl_envs.validation import is_own_request

COOKIE = "srl_watch_{port}"
"""Of the port that was asked for: browsers send the cookies of a host to all its ports."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
    "require-trusted-types-for 'script'; trusted-types 'none'"
)
HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


class Guard:
    """ASGI middleware that admits reading requests of this server's own pages, with the token.

    `names` are host names of this server besides `localhost` (`is_own_request`). The token comes
    once in the address (`/?token=...`), which the browser changes for a cookie, or as
    `Authorization: Bearer`.
    """

    def __init__(self, app: ASGIApp, token: str | None, names: Iterable[str] = ()) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._names = tuple(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it on; every answer gets HEADERS."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = self._refusal(scope) if scope["type"] == "http" else _told("no such thing", 404)
        await (refusal or self._app)(scope, receive, sent)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        sent = Headers(scope=scope)
        if not is_own_request(sent.get("host", ""), sent.get("origin"), self._names):
            return _told(
                "The request's Host is not a name of this server, or its Origin is another site. "
                "Use the server's address, or allow its name: srl watch --name NAME",
                421,
            )
        if scope["method"] not in ("GET", "HEAD"):
            return _told("This server is read-only.", 405)
        if self._token is None:
            return None
        asked = HTTPConnection(scope)
        given = asked.query_params.get("token", "")
        cookie = COOKIE.format(port=urlsplit(f"//{asked.headers['host']}").port or 80)
        if scope["path"] == "/" and self._is_token(given):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(cookie, given, httponly=True, samesite="lax")
            return answer
        scheme, _, bearer = asked.headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(bearer.strip()):
            return None
        if self._is_token(asked.cookies.get(cookie, "")):
            return None
        return _told("This page asks for a token: open the address that `srl watch` printed.", 401)

    def _is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(), self._token)


def _told(words: str, code: int) -> PlainTextResponse:
    return PlainTextResponse(words + "\n", code)
