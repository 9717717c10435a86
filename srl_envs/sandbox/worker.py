"""Worker of the pool: a process that forks one run after another.

Whatever comes back over its pipes is read in bounded amounts and believed in nothing.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import json
import marshal
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from srl_envs.sandbox.errors import SandboxError
from srl_envs.sandbox.guest import zygote
from srl_envs.sandbox.limits import Limits
from srl_envs.sandbox.protections import Protections

START = 30.0  # seconds that a worker may take to start
GRACE = 5.0  # seconds beyond its time after which a run's worker is given up
CHUNK = 65536

# The worker's own interpreter is handed our modules, and none of the package's others. It is not
# told where they lie, so no program can find that out.
_MODULES = (
    *("srl_envs.errors", "srl_envs.untrusted"),
    "srl_envs.sandbox.errors",
    *(f"srl_envs.sandbox.guest.{name}" for name in ("confinement", "kernel", "own_files")),
    *(f"srl_envs.sandbox.guest.{name}" for name in ("runner", "serialization", "zygote")),
)
_PACKAGES = ("srl_envs", "srl_envs.sandbox", "srl_envs.sandbox.guest")
_BOOT = """
import marshal, sys
from _frozen_importlib import ModuleSpec
class Given:
    def find_spec(self, name, path=None, target=None):
        return ModuleSpec(name, self, is_package=name in packages) if name in code else None
    def create_module(self, spec): return None
    def exec_module(self, module): exec(code.pop(module.__name__), module.__dict__)
with open(int(sys.argv[2]), "rb") as file:
    code, packages = marshal.load(file)
sys.meta_path.append(Given())
from srl_envs.sandbox.guest import zygote
del sys.meta_path[-1]
zygote.main(int(sys.argv[1]))
"""


class WorkerLostError(SandboxError):
    """A worker ended, or no longer answers."""


class Running:
    """One run under way: what has come back so far, and how it ended."""

    def __init__(self, worker: Worker, request: bytes, stdin: bytes, wall: float) -> None:
        self.worker = worker
        self.received = bytearray()
        self.printed = bytearray()
        self.flooded = ""
        """Which of "output" and "results" went over its limit, or nothing."""
        self.status: int | None = None
        """As from os.wait; None while the run is under way."""
        self.cause, self.cpu, self.wall = zygote.ENDED, 0.0, 0.0
        self._until = time.monotonic() + wall + GRACE
        output, output_end = os.pipe()
        results, results_end = os.pipe()
        calls_end, calls = os.pipe()
        files = [_file("request", request), _file("stdin", stdin)]
        self._open = {output: self.printed, results: self.received}
        self._calls = calls
        theirs = [*files, output_end, results_end, calls_end]
        try:
            os.set_blocking(calls, False)
            socket.send_fds(worker.control, [struct.pack("=d", wall)], theirs)
        except OSError as error:
            self._close()
            raise WorkerLostError("the worker is gone") from error
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def __enter__(self) -> Running:
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def line(self) -> bytes | None:
        """The next line of results; None once the run is over and there is none."""
        while (end := self.received.find(b"\n")) < 0:
            if self.status is not None:
                return None
            self._pump()
        line = bytes(self.received[:end])
        del self.received[: end + 1]
        return line

    def send(self, line: bytes) -> None:
        """Give the program a line on its calls descriptor, if it still takes any."""
        rest = memoryview(line)
        while rest and self.status is None:
            try:
                rest = rest[os.write(self._calls, rest) :]
            except BlockingIOError:
                self._pump(self._calls)
            except BrokenPipeError:
                return

    def hang_up(self) -> None:
        """Let the program know that no more lines will come."""
        if self._calls >= 0:
            os.close(self._calls)
            self._calls = -1

    def stop(self) -> None:
        """Have the run killed."""
        with contextlib.suppress(OSError):
            self.worker.control.send(b"!", socket.MSG_NOSIGNAL)

    def finish(self) -> None:
        """Wait for the end, and read what is left in the pipes."""
        while self.status is None:
            self._pump()
        while ready := _ready(self._open):
            self._read(ready)

    def _pump(self, writing: int | None = None) -> None:
        left = max(0.0, self._until - time.monotonic())
        ready = _ready((*self._open, self.worker.control.fileno()), left, writing)
        if not ready:
            raise WorkerLostError("the worker no longer answers")
        self._read([each for each in ready if each in self._open])
        if self.worker.control.fileno() in ready:
            self._end()

    def _read(self, ready: list[int]) -> None:
        limits = self.worker.limits
        for descriptor in ready:
            kept = self._open[descriptor]
            name, most = (
                ("output", limits.output) if kept is self.printed else ("results", limits.results)
            )
            part = os.read(descriptor, CHUNK)
            if not part:
                self._open.pop(descriptor)
                os.close(descriptor)
                continue
            kept += part[: most - len(kept) + 1]
            if len(kept) > most:
                del kept[most:]
                if not self.flooded:
                    self.flooded = name
                    self.stop()

    def _end(self) -> None:
        try:
            reply = self.worker.control.recv(zygote.REPLY.size)
        except OSError as error:
            raise WorkerLostError("the worker is gone") from error
        if len(reply) != zygote.REPLY.size:
            raise WorkerLostError("the worker ended")
        self.status, self.cpu, self.wall, self.cause = zygote.REPLY.unpack(reply)

    def _close(self) -> None:
        self.hang_up()
        for descriptor in self._open:
            os.close(descriptor)
        self._open = {}


class Worker:
    """A started worker. Raises SandboxError where it cannot start. Not for two threads at once."""

    def __init__(
        self, limits: Limits, filters: Mapping[str, bytes], without: Collection[str]
    ) -> None:
        self.limits = limits
        self.owner = os.getpid()
        self._folder = tempfile.mkdtemp(prefix="srl-sandbox-")
        try:
            self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            # A virtual environment's interpreter would only tell where that is.
            interpreter = getattr(sys, "_base_executable", "") or sys.executable
            command = [interpreter, "-s", "-S", "-P", "-B", "-c", _BOOT]
            code = _file("code", _code())
            with theirs, os.fdopen(code):
                self._process = subprocess.Popen(
                    [*command, str(theirs.fileno()), str(code)],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.PIPE,
                    env={"PYTHONHASHSEED": "0", "LC_ALL": "C.UTF-8"},
                    cwd="/",
                    pass_fds=[theirs.fileno(), code],
                    start_new_session=True,
                )
            try:
                self.protections = self._greet(filters, without)
            except BaseException:
                self.close()
                raise
        finally:
            os.rmdir(self._folder)  # what was built on it is seen by the worker alone

    def idle(self) -> bool:
        """Whether it waits for a run; not so once it has ended."""
        return not _ready([self.control.fileno()])

    def start(self, request: bytes, stdin: bytes, wall: float) -> Running:
        """Begin a run; the one before must have finished. Raises WorkerLostError."""
        return Running(self, request, stdin, wall)

    def close(self) -> None:
        """End the worker and everything it started."""
        self.control.close()
        if os.getpid() != self.owner:  # a fork of the owner lets go of its copies and no more
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def last_words(self) -> str:
        """The last line that a worker that has ended said of why."""
        assert self._process.stderr is not None
        os.set_blocking(self._process.stderr.fileno(), False)
        said = self._process.stderr.read(10_000) or b""
        return (said.decode(errors="replace").strip().splitlines() or [""])[-1]

    def _greet(self, filters: Mapping[str, bytes], without: Collection[str]) -> Protections:
        settings: dict[str, Any] = {
            "limits": asdict(self.limits),
            "folder": self._folder,
            "filters": {
                what: base64.b64encode(each).decode("ascii") for what, each in filters.items()
            },
            "without": sorted(without),
        }
        self.control.settimeout(START)
        try:
            self.control.send(json.dumps(settings).encode())
            said = self.control.recv(zygote.SETTINGS)
        except OSError as error:
            raise SandboxError(f"the sandbox did not start: {error}") from error
        self.control.settimeout(None)
        if not said:
            why = self.last_words() or "it ended without a word"
            raise SandboxError(f"the sandbox did not start: {why}")
        return Protections(**json.loads(said))


@functools.cache
def _code() -> bytes:
    """The worker's modules by name, compiled, and the names of the packages they are in."""
    root = Path(__file__).parents[2]
    sources = dict.fromkeys(_PACKAGES, "")
    for name in _MODULES:
        sources[name] = Path(root, *name.split(".")).with_suffix(".py").read_text(encoding="utf-8")
    code = {name: compile(text, f"<{name}>", "exec") for name, text in sources.items()}
    return marshal.dumps((code, _PACKAGES))


def _ready(reading: Iterable[int], seconds: float = 0.0, writing: int | None = None) -> list[int]:
    """Those of the descriptors that are ready for it, or at their end, once one is."""
    poll = select.poll()
    for descriptor in reading:
        poll.register(descriptor, select.POLLIN)
    if writing is not None:
        poll.register(writing, select.POLLOUT)
    return [descriptor for descriptor, _ in poll.poll(seconds * 1000)]


def _file(name: str, content: bytes) -> int:
    descriptor = os.memfd_create(name)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
