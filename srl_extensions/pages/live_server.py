"""Server of the live page: documents with an ETag, and assets."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from urllib.parse import urlsplit

from srl_envs.loading import needed_by
from srl_envs.validation import is_own_request
from srl_extensions.pages import live_document
from srl_extensions.pages.document import plain
from srl_extensions.pages.live_runs import RunFolders

with needed_by("the live page"):
    from starlette.applications import Starlette
    from starlette.datastructures import Headers, MutableHeaders
    from starlette.exceptions import HTTPException
    from starlette.requests import HTTPConnection, Request
    from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
    from starlette.types import ASGIApp, Message, Receive, Scope, Send
    from uvicorn import Config, Server

PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Shortest and longest time in seconds until a document is built again."""
SHARE = 0.1
"""Share of one core for building a document."""
MOST_CONNECTIONS = 64
COOKIE = "srl_watch_{port}"
"""Name of the cookie with the token. Browsers send the cookies of a host to all of its ports."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass(frozen=True)
class Built:
    """Encoded document."""

    content: bytes
    etag: str
    versions: dict[str, int]
    """Version of each run in the document."""
    until: float
    """Time until which the document is not built again."""


class LivePages:
    """Documents of the runs in several folders, built again if files of the runs changed.

    Files are read only if a document is requested. The method may be called from any thread.
    """

    def __init__(self, given: Sequence[Path], *, trusted: bool = False) -> None:
        self._trusted = trusted
        self._folders = RunFolders(given)
        self._lock = threading.Lock()
        self._built: dict[str, Built] = {}

    def document(self, name: str) -> tuple[Built, float]:
        """Return a document and the seconds since a file of its runs was written.

        Args:
            name: Name of a run; "" for the overview, or for the only run that was given.

        Raises:
            KeyError: If there is no such run.
        """
        with self._lock:
            began, known = time.monotonic(), self._built.get(name)
            if known is None or began > known.until:
                self._folders.look()
                content, versions = self._content(name, known)
                etag = f'"{hashlib.blake2b(content, digest_size=16).hexdigest()}"'
                now = time.monotonic()
                pause = min(LONGEST_PAUSE, max(PAUSE, (now - began) / SHARE))
                known = self._built[name] = Built(content, etag, versions, now + pause)
            runs = self._folders.runs
            written = [one.written for run, one in runs.items() if name in ("", run)]
            return known, max(0.0, time.time() - max(written, default=time.time()))

    def _content(self, name: str, known: Built | None) -> tuple[bytes, dict[str, int]]:
        alone, runs = name or self._folders.only_run, self._folders.runs
        runs = {alone: runs[alone]} if alone else runs
        for run in runs.values():
            run.refresh()
        versions = {one: run.version for one, run in runs.items()}
        if known is not None and known.versions == versions:
            return known.content, versions
        if alone:
            document = live_document.of_run(alone, runs[alone], trusted=self._trusted)
        else:
            document = live_document.overview(runs, self._folders.given)
        text = json.dumps(plain(document), allow_nan=False, separators=(",", ":"))
        return text.encode(), versions


def server(
    folders: Sequence[Path],
    *,
    token: str | None = None,
    names: Sequence[str] = (),
    trusted: bool = False,
) -> Server:
    """Return the server of the live page; `run(sockets=[listener])` serves until interrupted.

    Args:
        folders: Run folders, or folders with several of them.
        token: Token that every reader must present, or None.
        names: Host names that are accepted in addition to localhost and IP addresses.
        trusted: Whether code and files named in the runs' configurations may be loaded.
    """
    return Server(Config(
        _app(LivePages(folders, trusted=trusted), token, names), log_level="error",
        access_log=False, server_header=False, ws="none", timeout_graceful_shutdown=1,
        limit_concurrency=MOST_CONNECTIONS,
    ))  # fmt: skip


def _app(pages: LivePages, token: str | None, names: Iterable[str]) -> ASGIApp:
    content = (
        resources.files("srl_extensions.pages").joinpath("assets/live.html").read_text("utf-8")
    )

    # Functions that are not coroutines run in threads, so that no reader waits for another.
    def page(request: Request) -> Response:
        return HTMLResponse(content)

    def document(request: Request) -> Response:
        try:
            built, quiet = pages.document(request.query_params.get("run", ""))
        except KeyError:
            raise HTTPException(404, "no such run") from None
        headers = {"ETag": built.etag, "X-Seconds-Since-Write": f"{quiet:.1f}"}
        if request.headers.get("if-none-match") == built.etag:
            return Response(status_code=304, headers=headers)
        return Response(built.content, media_type="application/json", headers=headers)

    routes = [
        Route("/", page),
        Mount("/assets", StaticFiles(packages=[("srl_extensions.pages", "assets")])),
        Route("/document", document),
    ]
    return Guard(Starlette(routes=routes), token, names)


class Guard:
    """Middleware that admits reads by pages of this server, with the token. Adds HEADERS.

    Args:
        app: Application behind the guard.
        token: Token in the address (`/?token=...`, which is exchanged for a cookie), in the cookie
            or as `Authorization: Bearer`; None if no token is required.
        names: Host names that are accepted in addition to localhost and IP addresses.
    """

    def __init__(self, app: ASGIApp, token: str | None, names: Iterable[str] = ()) -> None:
        self._app = app
        self._token = None if token is None else token.encode()
        self._names = tuple(names)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request, or pass it to the application."""
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def guarded_send(message: Message) -> None:
            if message["type"] == "http.response.start":
                MutableHeaders(scope=message).update(HEADERS)
            await send(message)

        refusal = PlainTextResponse("not found\n", 404)
        answer = self._refusal(scope) if scope["type"] == "http" else refusal
        await (answer or self._app)(scope, receive, guarded_send)

    def _refusal(self, scope: Scope) -> ASGIApp | None:
        headers = Headers(scope=scope)
        host = headers.get("host", "")
        if not is_own_request(host, headers.get("origin"), self._names):
            return PlainTextResponse(
                "The request's Host is not a name of this server, or its Origin is another site. "
                "Use the server's address, or allow its name: srl watch --name NAME\n", 421,
            )  # fmt: skip
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("This server is read-only.\n", 405)
        if self._token is None:
            return None
        request = HTTPConnection(scope)
        given = request.query_params.get("token", "")
        cookie = COOKIE.format(port=urlsplit(f"//{host}").port or 80)
        if scope["path"] == "/" and self._is_token(given):
            answer = RedirectResponse("/", 303)
            answer.set_cookie(cookie, given, httponly=True, samesite="lax")
            return answer
        scheme, _, bearer = headers.get("authorization", "").partition(" ")
        if scheme.lower() == "bearer" and self._is_token(bearer.strip()):
            return None
        if self._is_token(request.cookies.get(cookie, "")):
            return None
        return PlainTextResponse("Open the address with a token that `srl watch` printed.\n", 401)

    def _is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(), self._token)
