"""Server of the live page: documents with an ETag, and assets."""

from __future__ import annotations

import hashlib
import hmac
import os
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from email.utils import formatdate
from pathlib import Path

from srl_envs.loading import needed_by
from srl_envs.validation import is_own_request
from srl_extensions.pages import live_document
from srl_extensions.pages.document import asset, to_json
from srl_extensions.pages.live_runs import WatchedRun, find_runs

with needed_by("the live page"):
    from starlette.applications import Starlette
    from starlette.exceptions import HTTPException
    from starlette.middleware import Middleware
    from starlette.middleware.base import BaseHTTPMiddleware, RequestResponseEndpoint
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, PlainTextResponse, Response
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
    from uvicorn import Config, Server

PAUSE = 0.5
"""Shortest time in seconds between two builds of a document."""
SHARE = 0.1
"""Share of one CPU core that is spent on building a document."""
MOST_CONNECTIONS = 64
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}


@dataclass
class Built:
    """Document as JSON, as sent to clients."""

    content: str
    headers: dict[str, str]
    files: list[object]
    """Runs in the document, with `WatchedRun.seen` of each."""
    until: float = 0.0
    """Time (of time.monotonic) until which the document is not built again."""


class LivePages:
    """Documents of the runs in several folders, built when requested and files have changed.

    Args:
        given: Folders of runs, or folders that contain them.
        trusted: True to load code and files that the configurations of the runs name.
    """

    def __init__(self, given: Sequence[Path], *, trusted: bool = False) -> None:
        self._roots = [Path(os.path.realpath(folder)) for folder in given]
        self._trusted = trusted
        self._lock = threading.Lock()
        self._runs: dict[Path, WatchedRun] = {}
        self._built: dict[str, Built] = {}

    def document(self, name: str) -> Built:
        """Return a document; threads may call this method at the same time.

        Args:
            name: Name of a run; "" for the list of all runs, or for the only run that was given.

        Raises:
            KeyError: If there is no such run.
        """
        with self._lock:
            began, known = time.monotonic(), self._built.get(name)
            if known is not None and began < known.until:
                return known
            found = find_runs(self._roots)
            runs = {each: self._runs.get(run.folder, run) for each, run in found.items()}
            self._runs = {run.folder: run for run in runs.values()}
            alone = name
            if not name and len(runs) == 1 and [*self._runs] == self._roots:
                [alone] = runs
            shown = {alone: runs[alone]} if alone else runs
            for run in shown.values():
                run.refresh()
            files: list[object] = [(each, dict(run.seen)) for each, run in shown.items()]
            if known is None or known.files != files:
                if alone:
                    document = live_document.of_run(alone, runs[alone], trusted=self._trusted)
                else:
                    document = live_document.overview(runs, self._roots)
                content = to_json(document)
                etag = hashlib.blake2b(content.encode(), digest_size=16).hexdigest()
                times = [time for run in shown.values() for time, _ in run.seen.values()]
                written = formatdate(max(times, default=0) / 1e9, usegmt=True)
                headers = {"ETag": f'"{etag}"', "Last-Modified": written}
                known = self._built[name] = Built(content, headers, files)
            now = time.monotonic()
            known.until = now + max(PAUSE, (now - began) / SHARE)
            return known


def server(
    folders: Sequence[Path],
    *,
    host: str = "127.0.0.1",
    port: int = 0,
    token: str | None = None,
    names: Sequence[str] = (),
    trusted: bool = False,
) -> Server:
    """Return the server of the live page.

    Args:
        folders: Folders of runs, or folders that contain them.
        host: Address to listen at.
        port: Port to listen at; 0 for a free port.
        token: Token that each client must present, or None if no token is required.
        names: Host names that are accepted in addition to localhost and IP addresses.
        trusted: True to load code and files that the configurations of the runs name.

    Returns:
        Server whose `run()` serves until interrupted.
    """
    pages = LivePages(folders, trusted=trusted)

    # Starlette runs a plain function in a thread, so that requests do not wait for each other.
    def document(request: Request) -> Response:
        try:
            built = pages.document(request.query_params.get("run", ""))
        except KeyError:
            raise HTTPException(404, "no such run") from None
        if request.headers.get("if-none-match") == built.headers["ETag"]:
            return Response(status_code=304, headers=built.headers)
        return Response(built.content, media_type="application/json", headers=built.headers)

    async def guard(request: Request, call_next: RequestResponseEndpoint) -> Response:
        answer = refusal(request, token, names) or await call_next(request)
        answer.headers.update(HEADERS)
        return answer

    app = Starlette(
        routes=[
            Route("/", HTMLResponse(asset("live.html"))),
            Mount("/assets", StaticFiles(packages=[("srl_extensions.pages", "assets")])),
            Route("/document", document),
        ],
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=guard)],
    )
    return Server(Config(
        app, host=host, port=port, log_level="error", access_log=False, server_header=False,
        ws="none", timeout_graceful_shutdown=1, limit_concurrency=MOST_CONNECTIONS,
    ))  # fmt: skip


def refusal(request: Request, token: str | None, names: Sequence[str]) -> Response | None:
    """Return the answer to a request that is not allowed, or None if it is allowed.

    Requests must come from pages of this server. If there is a token, requests of documents must
    present it as `Authorization: Bearer`; the page itself and its scripts are public.
    """
    host = request.headers.get("host", "")
    if not is_own_request(host, request.headers.get("origin"), names):
        return PlainTextResponse(
            "The request's Host is not a name of this server, or its Origin is another site. "
            "Use the address of the server, or allow its name: srl watch --name NAME\n", 421,
        )  # fmt: skip
    bearer = request.headers.get("authorization", "").removeprefix("Bearer ")
    if token is None or request.url.path != "/document":
        return None
    if hmac.compare_digest(bearer.encode(), token.encode()):
        return None
    return PlainTextResponse("Open the address with a token that `srl watch` printed.\n", 401)
