"""Guard of the live page's server: who may read, under which names, and what browsers may do."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

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
    """Lets a request through that reads, under a name that nobody else can take, with the token.

    Names of hosts are refused unless they are `localhost` or given: a page elsewhere can have its
    own name lead here (DNS rebinding), but no address. The token comes once in the address
    (`/?token=...`), which the browser changes for a cookie, or as `Authorization: Bearer`.
    """

    def __init__(self, app: ASGIApp, token: str | None, names: Iterable[str] = ()) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._names = {"localhost", *(name.lower().rstrip(".") for name in names)}

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
        if not self._is_own(Headers(scope=scope).get("host", "")):
            return _told(
                "This server is asked under a name that it does not know. Ask for it by its "
                "address, or give the name: srl watch --name NAME",
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

    def _is_own(self, host: str) -> bool:
        try:
            asked = urlsplit(f"//{host}")
            name, _ = asked.hostname or "", asked.port
        except ValueError:  # brackets that do not close, no address within, a port that is none
            return False
        return name.rstrip(".") in self._names or _is_address(name)

    def _is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(), self._token)


def _told(words: str, code: int) -> PlainTextResponse:
    return PlainTextResponse(words + "\n", code)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
