"""Workers: processes that fork one run after another.

Data from the pipes of a worker are untrusted and read in bounded amounts.
"""

from __future__ import annotations

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
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import Any

from srl_envs.sandbox import seccomp
from srl_envs.sandbox.guest import runner, zygote
from srl_envs.sandbox.records import LEVELS, Limits, Protections, SandboxError

START = 30.0  # time limit of the start of a worker, in seconds
GRACE = 5.0  # seconds after the time limit of a run at which its worker counts as lost
CHUNK = 65536

# The interpreter of the worker receives the code of these modules, in the order of their imports,
# and no paths, so that no program can find the package.
_GUEST = "srl_envs.sandbox.guest"
_MODULES = (
    *("srl_envs", "srl_envs.errors", "srl_envs.untrusted", "srl_envs.sandbox", _GUEST),
    *(
        f"{_GUEST}.{name}"
        for name in ("kernel", "confinement", "serialization", "runner", "zygote")
    ),
)
_BOOT = """
import marshal, sys
with open(int(sys.argv[2]), "rb") as file:
    modules = marshal.load(file)
for name, code in modules.items():
    sys.modules[name] = type(sys)(name)
    exec(code, sys.modules[name].__dict__)
sys.modules["srl_envs.sandbox.guest.zygote"].main(int(sys.argv[1]))
"""


class WorkerLostError(SandboxError):
    """Error of a worker that ended or does not answer."""


class Running:
    """Run of a request (JSON, see runner.run) by a worker, started by the constructor.

    The constructor and all methods except `hang_up`, `stop` and `close` may raise WorkerLostError.
    """

    def __init__(self, worker: Worker, request: bytes) -> None:
        self.worker = worker
        self.received = bytearray()
        self.printed = bytearray()
        self.flooded = ""
        """Exceeded limit, "output" or "results", or empty."""
        self.status: int | None = None
        """Status as from os.wait; None during the run."""
        self.cause, self.cpu = zygote.ENDED, 0.0
        wall = worker.limits.wall
        self._until = time.monotonic() + wall + GRACE
        output, output_end = os.pipe()
        results, results_end = os.pipe()
        calls_end, calls = os.pipe()
        self._open = {output: self.printed, results: self.received}
        self._calls = calls
        theirs = [_memory_file("request", request), output_end, results_end, calls_end]
        try:
            os.set_blocking(calls, False)
            socket.send_fds(worker.control, [struct.pack("=d", wall)], theirs)
        except OSError as error:
            self.close()
            raise WorkerLostError("the worker is gone") from error
        finally:
            for descriptor in theirs:
                os.close(descriptor)

    def line(self) -> bytes | None:
        """Wait for and return the next line of results; None after the last."""
        while (end := self.received.find(b"\n")) < 0:
            if self.status is not None:
                return None
            self._pump()
        line = bytes(self.received[:end])
        del self.received[: end + 1]
        return line

    def send(self, line: bytes) -> None:
        """Write a whole `line`, unless the run ends or closes the pipe."""
        rest = memoryview(line)
        while rest and self.status is None:
            try:
                rest = rest[os.write(self._calls, rest) :]
            except BlockingIOError:
                self._pump(self._calls)
            except BrokenPipeError:
                return

    def hang_up(self) -> None:
        """Close the pipe of calls, which ends the program's loop. May be called twice."""
        if self._calls >= 0:
            os.close(self._calls)
            self._calls = -1

    def stop(self) -> None:
        """Request the worker to kill the run, without waiting for its end."""
        with contextlib.suppress(OSError):
            self.worker.control.send(b"!", socket.MSG_NOSIGNAL)

    def finish(self) -> None:
        """Wait for the end of the run; read its remaining output and results."""
        while self.status is None:
            self._pump()
        while ready := _ready(self._open):
            self._read(ready)

    def _pump(self, writing: int | None = None) -> None:
        """Wait for output, the end of the run or space in the pipe `writing`; update the fields."""
        control = self.worker.control
        left = max(0.0, self._until - time.monotonic())
        ready = _ready((*self._open, control.fileno()), left, writing)
        if not ready:
            raise WorkerLostError("the worker no longer answers")
        self._read([each for each in ready if each in self._open])
        if control.fileno() not in ready:
            return
        try:
            reply = control.recv(zygote.REPLY.size)
        except OSError as error:
            raise WorkerLostError("the worker is gone") from error
        if len(reply) != zygote.REPLY.size:
            raise WorkerLostError("the worker ended")
        self.status, self.cpu, self.cause = zygote.REPLY.unpack(reply)

    def _read(self, ready: list[int]) -> None:
        limits = self.worker.limits
        for descriptor in ready:
            kept = self._open[descriptor]
            name = "output" if kept is self.printed else "results"
            most = getattr(limits, name)
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

    def close(self) -> None:
        """Close all descriptors of the run. May be called twice."""
        self.hang_up()
        for descriptor in self._open:
            os.close(descriptor)
        self._open = {}


class Worker:
    """Worker process, tested with an empty program; not safe for two threads at once.

    Raises SandboxError if it cannot start, or if its level of protection is below `minimum`.
    """

    def __init__(self, limits: Limits, minimum: str, without: Collection[str]) -> None:
        self.limits, self.owner = limits, os.getpid()
        filters, refused = {}, {}
        if "seccomp" not in without:
            try:
                filters = {files: seccomp.compiled(files).hex() for files in seccomp.FILES}
            except ImportError as error:
                refused["seccomp"] = str(error)
        self.control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The interpreter of a virtual environment would reveal its path.
        interpreter = getattr(sys, "_base_executable", "") or sys.executable
        command = [interpreter, "-s", "-S", "-P", "-B", "-c", _BOOT]
        code = _memory_file("code", _guest_code())
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
        settings = {"limits": asdict(limits), "filters": filters, "without": sorted(without)}
        try:
            with tempfile.TemporaryDirectory(prefix="srl-sandbox-") as folder:
                # Only the worker sees its mounts.
                granted = self._granted({**settings, "folder": folder})
            refused.update(granted["refused"])
            self.protections = Protections(**{**granted, "refused": refused})
            if LEVELS.index(self.protections.level) < LEVELS.index(minimum):
                raise SandboxError(
                    f"the sandbox reaches {self.protections}. Wanted is level {minimum} or "
                    "better: allow it, or give a lower minimum if you trust the programs"
                )
            self._check_empty_program()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Kill the worker and its processes, and wait; in a fork, only close the socket."""
        self.control.close()
        if os.getpid() != self.owner:  # A fork of the owner only closes its copies.
            return
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        if self._process.stderr is not None:
            self._process.stderr.close()

    def is_lost(self) -> bool:
        """Return True if the worker has ended; not to be called during a run."""
        return bool(_ready([self.control.fileno()]))

    def _granted(self, settings: Mapping[str, Any]) -> dict[str, Any]:
        self.control.settimeout(START)
        try:
            self.control.send(json.dumps(settings).encode())
            reply = self.control.recv(zygote.SETTINGS)
        except OSError as error:
            raise SandboxError(f"the sandbox did not start: {error}") from error
        self.control.settimeout(None)
        if not reply:
            reason = self._last_error_line() or "it ended without a message"
            raise SandboxError(f"the sandbox did not start: {reason}")
        granted: dict[str, Any] = json.loads(reply)
        return granted

    def _check_empty_program(self) -> None:
        failure = ""
        try:
            with closing(Running(self, runner.NOTHING)) as running:
                running.hang_up()
                running.finish()
            if running.status or running.received != runner.DONE:
                failure = running.printed.decode(errors="replace").strip() or str(running.status)
        except WorkerLostError as error:
            failure = self._last_error_line() or str(error)
        if failure:
            raise SandboxError(f"an empty program could not be run: {failure.splitlines()[-1]}")

    def _last_error_line(self) -> str:
        assert self._process.stderr is not None
        os.set_blocking(self._process.stderr.fileno(), False)
        output = self._process.stderr.read(10_000) or b""
        return (output.decode(errors="replace").strip().splitlines() or [""])[-1]


@functools.cache
def _guest_code() -> bytes:
    root = Path(__file__).parents[2]
    code = {}
    for name in _MODULES:
        path = Path(root, *name.split(".")).with_suffix(".py")
        text = path.read_text(encoding="utf-8") if path.exists() else ""
        code[name] = compile(text, f"<{name}>", "exec")
    return marshal.dumps(code)


def _ready(reading: Iterable[int], seconds: float = 0.0, writing: int | None = None) -> list[int]:
    poll = select.poll()
    for descriptor in reading:
        poll.register(descriptor, select.POLLIN)
    if writing is not None:
        poll.register(writing, select.POLLOUT)
    return [descriptor for descriptor, _ in poll.poll(seconds * 1000)]


def _memory_file(name: str, content: bytes) -> int:
    descriptor = os.memfd_create(name)
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(content)
    os.lseek(descriptor, 0, os.SEEK_SET)
    return descriptor
