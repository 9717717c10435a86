"""Server of the live page: documents with an ETag, and assets."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from srl_envs.loading import needed_by
from srl_envs.validation import is_own_request
from srl_extensions.pages import live_document
from srl_extensions.pages.document import asset, plain
from srl_extensions.pages.live_runs import RunFolders

with needed_by("the live page"):
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, PlainTextResponse, RedirectResponse, Response
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
    from uvicorn import Config, Server

PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Shortest and longest time in seconds between two builds of a document."""
SHARE = 0.1
"""Share of one CPU core that is spent on building a document."""
MOST_CONNECTIONS = 64
COOKIE = "srl_watch_{port}"
"""Name of the cookie with the token; it has the port, because all ports of a host share cookies."""
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
    """Document as JSON, as sent to clients."""

    content: bytes
    etag: str
    versions: dict[str, int]
    """`WatchedRun.version` of each run in the document."""
    until: float
    """Time (of time.monotonic) until which the document is not built again."""


class LivePages:
    """Documents of the runs in several folders, built when requested and files have changed.

    Args:
        given: Folders of runs, or folders that contain them.
        trusted: True to load code and files that the configurations of the runs name.
    """

    def __init__(self, given: Sequence[Path], *, trusted: bool = False) -> None:
        self._trusted = trusted
        self._folders = RunFolders(given)
        self._lock = threading.Lock()
        self._built: dict[str, Built] = {}

    def document(self, name: str) -> tuple[Built, float]:
        """Return a document; threads may call this method at the same time.

        Args:
            name: Name of a run; "" for the overview, or for the only run that was given.

        Returns:
            The document, and the seconds since a file of its runs was written.

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
    """Return the server of the live page.

    Args:
        folders: Folders of runs, or folders that contain them.
        token: Token that each client must present, or None if no token is required.
        names: Host names that are accepted in addition to localhost and IP addresses.
        trusted: True to load code and files that the configurations of the runs name.

    Returns:
        Server whose `run(sockets=[listener])` serves until interrupted.
    """
    pages = LivePages(folders, trusted=trusted)

    # Starlette runs a plain function in a thread, so that requests do not wait for each other.
    def document(request: Request) -> Response:
        try:
            built, quiet = pages.document(request.query_params.get("run", ""))
        except KeyError:
            raise HTTPException(404, "no such run") from None
        headers = {"ETag": built.etag, "X-Seconds-Since-Write": f"{quiet:.1f}"}
        if request.headers.get("if-none-match") == built.etag:
            return Response(status_code=304, headers=headers)
        return Response(built.content, media_type="application/json", headers=headers)

    async def guard(request: Request, call_next: RequestResponseEndpoint) -> Response:
        answer = refusal(request, token, names) or await call_next(request)
        answer.headers.update(HEADERS)
        return answer

    # Starlette answers unexpected errors outside of `guard`.
    def failed(_request: Request, _error: Exception) -> Response:
        return PlainTextResponse("Internal Server Error", 500, headers=HEADERS)

    routes = [
        Route("/", HTMLResponse(asset("live.html"))),
        Mount("/assets", StaticFiles(packages=[("srl_extensions.pages", "assets")])),
        Route("/document", document),
    ]
    app = Starlette(
        routes=routes,
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard)],
        exception_handlers={Exception: failed},
    )
    return Server(Config(
        app, log_level="error", access_log=False, server_header=False, ws="none",
        timeout_graceful_shutdown=1, limit_concurrency=MOST_CONNECTIONS,
    ))  # fmt: skip


def refusal(request: Request, token: str | None, names: Sequence[str]) -> Response | None:
    """Return the answer to a request that may not read the pages, or None if it may.

    Allowed are reads from pages of this server. If there is a token, they must present it in the
    cookie or as `Authorization: Bearer`. The address `/?token=...` sets the cookie.
    """
    host = request.headers.get("host", "")
    if not is_own_request(host, request.headers.get("origin"), names):
        return PlainTextResponse(
            "The request's Host is not a name of this server, or its Origin is another site. "
            "Use the address of the server, or allow its name: srl watch --name NAME\n", 421,
        )  # fmt: skip
    if request.method not in ("GET", "HEAD"):
        return PlainTextResponse("This server is read-only.\n", 405)
    if token is None:
        return None

    def is_token(given: str) -> bool:
        return hmac.compare_digest(given.encode(), token.encode())

    in_address = request.query_params.get("token", "")
    cookie = COOKIE.format(port=urlsplit(f"//{host}").port or 80)
    if request.url.path == "/" and is_token(in_address):
        answer = RedirectResponse("/", 303)
        answer.set_cookie(cookie, in_address, httponly=True, samesite="lax")
        return answer
    scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer" and is_token(bearer.strip()):
        return None
    if is_token(request.cookies.get(cookie, "")):
        return None
    return PlainTextResponse("Open the address with a token that `srl watch` printed.\n", 401)
