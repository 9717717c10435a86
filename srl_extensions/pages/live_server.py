"""Server of the live page: documents with an ETag, and assets."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Sequence
from pathlib import Path

from srl_envs.loading import needed_by
from srl_envs.validation import is_own_request
from srl_extensions.pages.document import asset, to_json
from srl_extensions.pages.live_runs import WatchedRun, find_runs, of_run, overview

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

MOST_CONNECTIONS = 64
FOREIGN = "Host or Origin is foreign: use the server's address, or srl watch --name NAME\n"
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


class LivePages:
    """Pages of the runs in and below several folders, as JSON that is current at each call."""

    def __init__(self, given: Sequence[Path]) -> None:
        self._roots = [Path(os.path.realpath(folder)) for folder in given]
        self._lock = threading.Lock()
        self._runs: dict[Path, WatchedRun] = {}

    def document(self, name: str) -> str:
        """Return the page of the run `name` (`find_runs`) as JSON; KeyError if there is none.

        "" selects the list of all runs, or the only run if its folder is the only given one.
        Threads may call this method at the same time.
        """
        with self._lock:
            found = find_runs(self._roots)
            runs = {each: self._runs.get(run.folder, run) for each, run in found.items()}
            self._runs = {run.folder: run for run in runs.values()}
            alone = name
            if not name and [*self._runs] == self._roots and len(runs) == 1:
                [alone] = runs
            shown = {alone: runs[alone]} if alone else runs
            for run in shown.values():
                run.refresh()
            return to_json(of_run(alone, runs[alone]) if alone else overview(runs, self._roots))


def server(folders: Sequence[Path], *, port: int = 0, names: Sequence[str] = ()) -> Server:
    """Return the server of the live page of runs in and below `folders`; `run()` starts it.

    The server listens at 127.0.0.1. Port 0 selects a free port. `names` are host names that are
    accepted in addition to localhost and IP addresses.
    """
    pages = LivePages(folders)

    # Starlette runs a plain function in a thread, so that requests do not wait for each other.
    def document(request: Request) -> Response:
        try:
            content = pages.document(request.query_params.get("run", ""))
        except KeyError:
            raise HTTPException(404, "no such run") from None
        etag = f'"{hashlib.blake2b(content.encode(), digest_size=16).hexdigest()}"'
        headers = {"ETag": etag}
        if request.headers.get("if-none-match") == etag:
            return Response(status_code=304, headers=headers)
        return Response(content, media_type="application/json", headers=headers)

    async def guard(request: Request, call_next: RequestResponseEndpoint) -> Response:
        answer: Response = PlainTextResponse(FOREIGN, 421)
        if is_own_request(request.headers.get("host", ""), request.headers.get("origin"), names):
            answer = await call_next(request)
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
        app, host="127.0.0.1", port=port, log_level="error", access_log=False, server_header=False,
        ws="none", timeout_graceful_shutdown=1, limit_concurrency=MOST_CONNECTIONS,
    ))  # fmt: skip
