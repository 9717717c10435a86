"""Server of the live page: documents with an ETag, transcripts of sample episodes, assets."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import BinaryIO
from urllib.parse import urlsplit

from srl_agents.episode import from_json
from srl_agents.errors import EpisodeError
from srl_envs.loading import needed_by
from srl_envs.validation import is_own_request
from srl_extensions.pages import live_document, report
from srl_extensions.pages.document import Document, Text, plain
from srl_extensions.pages.live_runs import (
    LONGEST_EPISODE,
    RunFolders,
    WatchedRun,
    holds_run,
    open_beneath,
)
from srl_train.metrics.errors import RunFolderError

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

PAUSE, LONGEST_PAUSE = 0.5, 60.0
"""Shortest and longest time in seconds until a document is built again."""
SHARE = 0.1
"""Share of one core for building a document."""
MOST_CONNECTIONS = 64
MOST_EPISODES = 64
"""Number of episodes of a file that are offered."""
KEPT_EPISODES = 8
"""Number of transcripts in the cache."""
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

    Files are read only if a document is requested. The methods may be called from any thread.
    """

    def __init__(self, given: Sequence[Path], *, trusted: bool = False) -> None:
        self.trusted = trusted
        self.folders = RunFolders(given)
        self._lock = threading.Lock()
        self._built: dict[str, Built] = {}
        self._made: OrderedDict[tuple[object, ...], bytes] = OrderedDict()

    def document(self, name: str) -> tuple[Built, float]:
        """Return a document and the seconds since a file of its runs was written.

        Args:
            name: Name of a run; "" for the overview, or for the only run that was given.

        Raises:
            KeyError: If there is no such run.
        """
        with self._lock:
            known = self._built.get(name)
            began = time.monotonic()
            if known is None or began > known.until:
                self.folders.look()
                self._built[name] = known = self._updated(name, known, began)
            runs = [self.folders.runs[name]] if name else self.folders.runs.values()
            written = max((run.written for run in runs), default=time.time())
            return known, max(0.0, time.time() - written)

    def _updated(self, name: str, known: Built | None, began: float) -> Built:
        alone = name or self.folders.only_run
        runs = {alone: self.folders.runs[alone]} if alone else self.folders.runs
        runs = {run: one for run, one in runs.items() if holds_run(one.folder)}
        for one in runs.values():
            one.refresh()
        versions = {run: one.version for run, one in runs.items()}
        content, etag = (known.content, known.etag) if known else (b"", "")
        if known is None or known.versions != versions:
            if not alone:
                document = live_document.overview(runs, self.folders.given, self.folders.left_out)
            elif alone in runs:
                document = live_document.of_run(alone, runs[alone], trusted=self.trusted)
            else:
                document = Document(alone, "", [Text("There is no run in this folder.")])
            content = _json(plain(document))
            etag = f'"{hashlib.blake2b(content, digest_size=16).hexdigest()}"'
        now = time.monotonic()
        pause = min(LONGEST_PAUSE, max(PAUSE, (now - began) / SHARE))
        return Built(content, etag, versions, now + pause)

    def game(self, name: str, file_name: str, number: int) -> bytes:
        """Return the transcript of a sample episode as JSON, and the number of episodes.

        One episode is parsed at a time, and each version of a file once.

        Raises:
            KeyError: If there is no such run or file.
        """
        with self._lock:
            if name not in self.folders.runs:
                self.folders.look()
            watched = self.folders.runs[name]
            if file_name not in watched.samples or not 0 <= number < MOST_EPISODES:
                raise KeyError(file_name)
            watched.refresh()
            try:
                return self._game(watched, watched.folder / "episodes" / file_name, number)
            except (EpisodeError, RunFolderError, UnicodeDecodeError, OSError) as error:
                reason = [Text(f"{file_name} cannot be read: {error}", "bad")]
                return _json({"count": 0, "blocks": plain(reason)})

    def _game(self, watched: WatchedRun, path: Path, number: int) -> bytes:
        with open_beneath(path, watched.root) as file:
            status = os.fstat(file.fileno())
            key = (path, number, status.st_ino, status.st_size, status.st_mtime_ns)
            if key not in self._made:
                count, line = _episode_line(file, number)
                episode = from_json(line.decode("ascii"))
                if watched.record is None:
                    raise RunFolderError(" ".join(watched.problems))
                blocks = report.sample_episode(episode, watched.record, trusted=self.trusted)
                self._made[key] = _json({"count": count, "blocks": plain(blocks)})
        self._made.move_to_end(key)
        if len(self._made) > KEPT_EPISODES:
            self._made.popitem(last=False)
        return self._made[key]


def _episode_line(file: BinaryIO, wanted: int) -> tuple[int, bytes]:
    """Return the number of episodes in the file, and the line of one of them.

    Raises:
        EpisodeError: If there is no such line, or the line is longer than LONGEST_EPISODE.
    """
    count, found = 0, b""
    while count < MOST_EPISODES and (line := file.readline(LONGEST_EPISODE)):
        complete = line.endswith(b"\n")
        ended = complete
        while not ended and (more := file.readline(LONGEST_EPISODE)):
            ended = more.endswith(b"\n")
        if ended and line.strip():
            if count == wanted and complete:
                found = line
            count += 1
    if not found:
        limit = f"has more than {LONGEST_EPISODE} bytes" if wanted < count else "is not there"
        raise EpisodeError(f"episode {wanted} {limit}; the file has {count} episodes")
    return count, found


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

    def game(request: Request) -> Response:
        asked = request.query_params
        number = asked.get("number", "0")
        try:
            wanted = int(number) if number.isdecimal() and len(number) < 4 else -1
            found = pages.game(asked.get("run", ""), asked.get("file", ""), wanted)
        except KeyError:
            raise HTTPException(404, "no such game") from None
        return Response(found, media_type="application/json")

    routes = [
        Route("/", page),
        Mount("/assets", StaticFiles(packages=[("srl_extensions.pages", "assets")])),
        Route("/document", document),
        Route("/game", game),
    ]
    return Guard(Starlette(routes=routes), token, names)


def _json(value: object) -> bytes:
    return json.dumps(value, allow_nan=False, separators=(",", ":")).encode()


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
