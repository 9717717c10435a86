"""HTTP server in a thread, with keep-alive and scripted faults."""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Body = dict[str, Any]
FAULTS = ("timeout", "429", "500", "502", "503", "504", "cut", "json", "empty", "closed")
"""Faults of one request: no reply in time; a status (with Retry-After); a truncated reply;
invalid JSON; no answer in the reply; a connection closed without a reply."""


class Faults:
    """Script of the faults of coming requests."""

    def __init__(self) -> None:
        self.script: deque[str | None] = deque()
        """Fault of each coming request (see FAULTS), or None."""
        self.always: Callable[[Body], str | None] = lambda body: None
        """Function from the body to a fault that precedes the script, or None."""
        self.stall = 1.0
        """Duration of a timeout in seconds."""
        self.retry_after = 0.01
        """Seconds in the Retry-After header of statuses from 429."""
        self.struck: list[str] = []
        self._lock = threading.Lock()

    def next(self, body: Body) -> str | None:
        """Return the fault of a request, or None."""
        with self._lock:
            fault = self.always(body) or (self.script.popleft() if self.script else None)
            if fault:
                self.struck.append(fault)
            return fault


class HTTPServer(ThreadingHTTPServer):
    daemon_threads = False
    request_queue_size = 256

    def __init__(self, app: Any, port: int = 0):
        self.app, self.closing = app, threading.Event()
        self.connections: set[Any] = set()
        super().__init__(("127.0.0.1", port), Handler)

    def close_connections(self) -> None:
        for connection in list(self.connections):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Print errors, except those of connections that a client closed."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class Handler(BaseHTTPRequestHandler):
    """Handler that sends the status and content of `server.app.reply(path, body, headers)`."""

    disable_nagle_algorithm = True
    server: HTTPServer

    def setup(self) -> None:
        super().setup()
        self.protocol_version = "HTTP/1.1" if self.server.app.keeps_connections else "HTTP/1.0"
        self.server.connections.add(self.connection)

    def finish(self) -> None:
        self.server.connections.discard(self.connection)
        super().finish()

    def do_POST(self) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        self._answer(json.loads(self.rfile.read(length) or b"{}"))

    def do_GET(self) -> None:
        self._answer({})

    def _answer(self, body: Body) -> None:
        app = self.server.app
        fault = app.faults.next(body) if app.struck_by_faults(self.path) else None
        if fault is not None and fault.isdecimal():
            self._send(int(fault), {"error": {"message": f"scripted {fault}"}})
            return
        status, content = app.reply(
            self.path, body, {k.lower(): v for k, v in self.headers.items()}
        )
        if fault == "timeout":
            self.server.closing.wait(app.faults.stall)
        if fault in ("timeout", "closed"):
            self.close_connection = True
        elif fault == "cut":
            self._send(status, content, sent=0.5)
        elif fault == "json":
            self._send(status, content, sent=0.5, cut=False)
        elif fault == "empty":
            self._send(status, content | {"choices": [], "content": None})
        elif fault == "model":
            self._send(status, content | {"model": "another"})
        else:
            self._send(status, content)

    def _send(self, status: int, value: Any, sent: float = 1.0, cut: bool = True) -> None:
        content = (value if isinstance(value, str) else json.dumps(value)).encode()
        if not cut:
            content, sent = content[: int(len(content) * sent)], 1.0
        self.send_response(status)
        kind = self.server.app.text_type if isinstance(value, str) else "application/json"
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        if status >= 429:
            self.send_header("Retry-After", str(self.server.app.faults.retry_after))
        self.end_headers()
        self.wfile.write(content[: int(len(content) * sent)])
        self.close_connection = self.close_connection or sent < 1

    def log_message(self, *_: Any) -> None: ...


@contextmanager
def serving(app: Any, port: int = 0) -> Iterator[HTTPServer]:
    """Serve `app`; its `faults` apply to requests for which `app.struck_by_faults(path)`."""
    http = HTTPServer(app, port)
    thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield http
    finally:
        http.closing.set()
        http.shutdown()
        thread.join()
        http.close_connections()
        http.server_close()  # This waits for the threads of open requests.
