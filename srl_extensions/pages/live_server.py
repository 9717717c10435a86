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
from srl_extensions.pages.live_runs import RunFolders, RunFollower, WatchedRun, open_beneath
from srl_train.metrics.document import Text, plain
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

LOOK = 2.0
"""Seconds between two searches for new runs."""
PAUSE, LONGEST_PAUSE = 0.5, 5.0
"""Shortest and longest time in seconds until a document is built again."""
SHARE = 0.1
"""Share of one core for building a document and for the search for runs."""
MOST_CONNECTIONS = 64
MOST_EPISODES = 64
"""Number of episodes of a file that are offered."""
LONGEST_EPISODE = 8 * 2**20
"""Number of bytes of an episode that is parsed for the page."""
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
    versions: tuple[tuple[str, int], ...]
    """Name and version of each run in the document."""
    at: float
    took: float
    """Seconds that the document took."""


class LivePages:
    """Documents of the runs in several folders, built again if files of the runs changed.

    Files are read only if a document is requested. The methods may be called from any thread.
    """

    def __init__(self, given: Sequence[Path], *, trusted: bool = False) -> None:
        self.trusted = trusted
        self.folders = RunFolders(given)
        self._lock = threading.Lock()
        self._built: dict[str, Built] = {}
        self._looked, self._looking = -LONGEST_PAUSE, 0.0

    def document(self, name: str) -> tuple[Built, float]:
        """Return a document and the seconds since a file of its runs was written.

        Args:
            name: Name of a run; "" for the overview, or for the only run that was given.

        Raises:
            KeyError: If there is no such run.
        """
        with self._lock:
            self._look()
            now = time.monotonic()
            name = name or self.folders.only_run
            followers = {name: self.folders.runs[name]} if name else self.folders.runs
            known = self._built.get(name)
            behind = any(one.behind for one in followers.values())
            pause = PAUSE if known is None else min(LONGEST_PAUSE, max(PAUSE, known.took / SHARE))
            if known is None or behind or now - known.at > pause:
                self._built[name] = known = self._updated(name, followers, known)
            written = max((one.written for one in followers.values()), default=time.time())
            return known, max(0.0, time.time() - written)

    def run(self, name: str) -> WatchedRun:
        """Return a run as far as its files are written. Raises KeyError."""
        with self._lock:
            self._look()
            follower = self.folders.runs[name]
            follower.refresh()
            return follower.run()

    def _look(self) -> None:
        began = time.monotonic()
        if began - self._looked > max(LOOK, self._looking / SHARE):
            self.folders.look()
            self._looked = time.monotonic()
            self._looking = self._looked - began

    def _updated(self, name: str, followers: dict[str, RunFollower], known: Built | None) -> Built:
        for follower in followers.values():
            follower.refresh()
        versions = tuple((run, one.version if one.exists else -1) for run, one in followers.items())
        began = time.monotonic()
        if known is not None and known.versions == versions:
            return Built(known.content, known.etag, versions, began, known.took)
        runs = {run: one.run() for run, one in followers.items() if one.exists}
        if not name:
            folders = self.folders
            document = live_document.overview(runs, folders.given, folders.left_out)
        elif name in runs:
            document = live_document.of_run(name, runs[name], trusted=self.trusted)
        else:
            document = live_document.without_run(name)
        content = _json(plain(document))
        etag = f'"{hashlib.blake2b(content, digest_size=16).hexdigest()}"'
        now = time.monotonic()
        return Built(content, etag, versions, now, now - began)


class SampleEpisodes:
    """Transcripts of sample episodes as JSON, one parse at a time, each version of a file once."""

    def __init__(self, *, trusted: bool = False) -> None:
        self._trusted = trusted
        self._lock = threading.Lock()
        self._made: OrderedDict[tuple[object, ...], bytes] = OrderedDict()

    def transcript(self, run: WatchedRun, name: str, number: int) -> bytes:
        """Return the number of episodes in the file `name` of the run, and the blocks of one."""
        with self._lock:
            path, count = run.folder / "episodes" / name, 0
            try:
                with open_beneath(path, run.root) as file:
                    status = os.fstat(file.fileno())
                    key = (path, number, status.st_ino, status.st_size, status.st_mtime_ns)
                    if key not in self._made:
                        count, line = _episode_line(file, number)
                        episode = from_json(line.decode("ascii"))
                        blocks = report.sample_episode(episode, run, trusted=self._trusted)
                        self._made[key] = _json({"count": count, "blocks": plain(blocks)})
            except (EpisodeError, RunFolderError, UnicodeDecodeError, OSError) as error:
                reason = [Text(f"{name} cannot be read: {error}", "bad")]
                return _json({"count": count, "blocks": plain(reason)})
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
    samples = SampleEpisodes(trusted=pages.trusted)
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
            run = pages.run(asked.get("run", ""))
        except KeyError:
            raise HTTPException(404, "no such run") from None
        offered = number.isdecimal() and len(number) < 4 and int(number) < MOST_EPISODES
        if not offered or asked.get("file", "") not in run.files:
            raise HTTPException(404, "no such game")
        transcript = samples.transcript(run, asked["file"], int(number))
        return Response(transcript, media_type="application/json")

    routes = [
        Route("/", page),
        Mount("/shared", StaticFiles(packages=[("srl_train.metrics", "page_assets")])),
        Mount("/live", StaticFiles(packages=[("srl_extensions.pages", "assets")])),
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
        told = "This page requires a token: open the address that `srl watch` printed.\n"
        return PlainTextResponse(told, 401)

    def _is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(), self._token)
