"""Server of the live page: the page, its assets, events, and transcripts of sample episodes."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from srl_agents.episode import from_json
from srl_agents.errors import EpisodeError
from srl_envs.loading.extras import needed_by
from srl_envs.loading.untrusted import MAX_BYTES
from srl_train.metrics.errors import RunFolderError
from srl_train.metrics.live.follower import Follower
from srl_train.metrics.live.hub import Hub
from srl_train.metrics.live.tail import open_inside
from srl_train.metrics.report import build
from srl_train.metrics.report.document import Text, plain

with needed_by("the live page"):
    from starlette.applications import Starlette
    from starlette.datastructures import State
    from starlette.exceptions import HTTPException
    from starlette.requests import Request
    from starlette.responses import HTMLResponse, JSONResponse, Response, StreamingResponse
    from starlette.routing import Mount, Route
    from starlette.staticfiles import StaticFiles
    from starlette.types import ASGIApp
    from uvicorn import Config, Server

    from srl_train.metrics.live.guard import Guard

ASSETS = ("uPlot.min.css", "page.css", "live.css",
          "uPlot.iife.min.js", "graph.js", "page.js", "live.js")  # fmt: skip
PULSE = 5.0
"""Seconds after which a reader is told that there is nothing new, and for how long."""
MOST_READERS = 64
LARGEST_EPISODE = 8 * 2**20
"""Limit of a sample episode in bytes. Its transcript takes many times the memory."""
_PARSING = threading.Lock()
"""Admits one request that parses a sample episode at a time."""
MOST_EPISODES = 64
"""Of one file that are offered."""
PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Core SRL</title>
{links}
</head>
<body class="live"><main><noscript>This page is drawn by scripts, which the browser does not run.\
</noscript></main></body>
</html>
"""


def server(
    folders: Sequence[Path],
    *,
    token: str | None = None,
    names: Sequence[str] = (),
    trusted: bool = False,
) -> Server:
    """The server of the runs in these folders; `run(sockets=[listener])` serves until interrupted.

    With a `token`, only those who give it may read; `names` are names of this host beside
    localhost and its addresses. Code and files that the runs' configurations name are touched only
    where they are `trusted`.
    """
    hub = Hub(folders, trusted=trusted)
    config = Config(_app(hub, token, names), log_level="error", access_log=False,
                    server_header=False, ws="none", timeout_graceful_shutdown=1)  # fmt: skip
    return _Server(config, hub)


class _Server(Server):  # type: ignore[misc]
    """A server that ends its streams of events before it waits for its connections."""

    def __init__(self, config: Config, hub: Hub) -> None:
        super().__init__(config)
        self._hub = hub

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        self._hub.end()
        await super().shutdown(sockets)


def _app(hub: Hub, token: str | None, names: Sequence[str]) -> ASGIApp:
    state = State()

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await asyncio.to_thread(hub.look)
        state.keeping_up = asyncio.create_task(hub.keep_up())
        yield
        state.keeping_up.cancel()

    async def page(request: Request) -> Response:
        links = [
            f'<link rel="stylesheet" href="/assets/{name}">'
            if name.endswith("css")
            else f'<script src="/assets/{name}" defer></script>'
            for name in ASSETS
        ]
        return HTMLResponse(PAGE.format(links="\n".join(links)))

    async def events(request: Request) -> Response:
        name = request.query_params.get("run") or hub.only_run or ""
        feed = hub.feed(name)
        if feed is None:
            raise HTTPException(404, "no such run")
        if hub.readers >= MOST_READERS:
            raise HTTPException(503, "too many readers")
        if request.method == "HEAD":  # a stream that never ends would keep its connection
            return Response(media_type="text/event-stream")

        async def stream() -> AsyncIterator[bytes]:
            last = request.headers.get("last-event-id", "")
            yield b"retry: 1000\n\n"
            if hub.readers >= MOST_READERS:  # of many at once, others were first
                return
            with feed.reader():
                while not (hub.ended or state.keeping_up.done()):
                    for event in feed.since(last):
                        yield event.encoded()
                        last = event.id
                    if not feed.empty:
                        yield b"event: pulse\ndata: %.1f\n\n" % hub.quiet_for(name)
                    await feed.news(PULSE)
            if not hub.ended:
                state.keeping_up.result()  # raises what ended it

        return StreamingResponse(stream(), media_type="text/event-stream")

    def game(request: Request) -> Response:
        asked = request.query_params
        follower = hub.folders.runs.get(asked.get("run", ""))
        file = asked.get("file", "")
        if follower is None:
            raise HTTPException(404, "no such run")
        follower.refresh()
        if file not in {path.name for path in follower.run().files}:
            raise HTTPException(404, "no such game")
        number = asked.get("number", "0")
        if not (number.isdecimal() and len(number) < 4 and int(number) < MOST_EPISODES):
            raise HTTPException(404, "no such game")
        with _PARSING:
            return JSONResponse(_game(follower, file, int(number), hub.trusted))

    routes = [
        Route("/", page),
        Mount("/assets", StaticFiles(packages=[("srl_train.metrics.report", "page_assets")])),
        Route("/events", events),
        Route("/game", game),
    ]
    return Guard(Starlette(routes=routes, lifespan=lifespan), token, names)


def _game(follower: Follower, file: str, number: int, trusted: bool) -> dict[str, Any]:
    """{"count": episodes in the file, "blocks": the transcript of one of them}."""
    path, run = follower.folder / "episodes" / file, follower.run()
    try:
        with open_inside(path, follower.root) as opened:
            lines = [line for line in opened.read(MAX_BYTES).split(b"\n")[:-1] if line.strip()]
            if len(lines[number]) > LARGEST_EPISODE:
                raise EpisodeError(
                    f"the episode must be at most {LARGEST_EPISODE} bytes, got "
                    f"{len(lines[number])}; `srl replay` shows longer ones"
                )
            episode = from_json(lines[number].decode("ascii"))
    except (EpisodeError, RunFolderError, IndexError, UnicodeDecodeError, OSError) as error:
        return {"count": 0, "blocks": plain([Text(f"{file} cannot be read: {error}", "bad")])}
    blocks = build.sample_episode(episode, run, trusted=trusted)
    return {"count": min(len(lines), MOST_EPISODES), "blocks": plain(blocks)}
