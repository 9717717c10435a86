"""Process of one vLLM server: start, readiness, log, drain and end."""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

from srl_agents.errors import ServerError
from srl_agents.serving.command import ServerSpec, arguments, environment
from srl_agents.serving.process import guard, loopback
from srl_agents.serving.process.records import ServerRecord, claim, is_claimed, release
from srl_envs.loading.untrusted import printable

POLL = 0.25
"""Seconds between two looks at a server that starts."""
PORT_POLL = 0.02
"""Seconds between two looks at the port of a server that was killed."""
LAST_MOMENTS = 4.0
"""Seconds in which a server whose engine died of a request ends, after it has said so."""
MARGIN = 10.0
"""Seconds after which the guard has ended, at the latest, once its server's time is over."""
LOG_BYTES = 256 * 1024
"""Of the log that a cause of death is looked for in."""
ERROR_LINE = re.compile(r"^(?:\(.*?pid=\d+\) )?(?:ERROR \S+ \S+ \[.*?\] )?([\w.]+Error: .*)$", re.M)
"""A traceback's last line, as it is or behind vLLM's own words."""


class ModelServer:
    """One server in a process group of its own under a guard, which ends it with this process."""

    def __init__(self, spec: ServerSpec) -> None:
        """Nothing starts yet.

        Raises ServingError for a specification that vLLM cannot be started with.
        """
        self.spec, self.url, self.name = spec, spec.url, f"{spec.served_name} at {spec.url}"
        self.log: Path = spec.log_folder / f"{_file_name(spec.served_name)}-{spec.port}.log"
        self._command = arguments(spec)
        self._process: subprocess.Popen[bytes] | None = None
        self._record: Path | None = None
        self._log_start = 0

    def __repr__(self) -> str:
        return f"<server of {self.name}>"

    @property
    def alive(self) -> bool:
        """Whether the process runs, which it does before and after it can answer."""
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        """Start the process; what it writes is added to `log`.

        Raises ServerError where the port is in use or the server runs already.
        """
        if self.alive:
            raise ServerError(f"{self.name} runs already")
        self._clear_away()
        self.log.parent.mkdir(parents=True, exist_ok=True)
        record = ServerRecord(self.url, self.spec.served_name, self.spec.model, str(self.log))
        self._record, lock = claim(record)
        try:
            check_port(self.spec.host, self.spec.port)
            with self.log.open("ab") as log:
                self._log_start = log.tell()
                self._process = subprocess.Popen(
                    [sys.executable, guard.__file__, str(os.getpid()), *self._command],
                    stdin=subprocess.PIPE,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    env=environment(self.spec, os.environ),
                    cwd=self.log.parent,
                    pass_fds=(lock,),
                    start_new_session=True,  # a group of its own, no signals of our terminal
                )
        finally:
            os.close(lock)

    async def wait_ready(self, timeout: float) -> None:
        """Wait until the server has really completed a token.

        Raises ServerError where it dies before, with the cause from its log, where it refuses, and
        after `timeout` seconds.
        """
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            if not self.alive:
                raise ServerError(f"{self.name} ended as it started: {self.cause_of_death()}")
            with contextlib.suppress(OSError):  # it does not listen yet, or died of the request
                if await loopback.healthy(self.url, left):
                    return await self._complete(left)
            await asyncio.sleep(POLL)
        raise ServerError(f"{self.name} was not ready after {timeout:g} s; its log: {self.log}")

    async def stop(self, drain: float = 0.0) -> None:
        """End the server; it has `drain` seconds to finish the answers under way."""
        await asyncio.to_thread(self._stop, drain)

    def kill(self) -> None:
        """End the process group at once, and clear away what it leaves; it can start again."""
        if self._process is not None:
            _kill_group(self._process.pid)
            self._process.wait()
            self._wait_for_port()
        self._clear_away()

    def cause_of_death(self) -> str:
        """The first error in the log since the last start, else its last words, and its place."""
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            text = file.read(LOG_BYTES).decode(errors="replace")
        if error := ERROR_LINE.search(text):
            said = error[1]
        else:
            said = " / ".join([line.strip() for line in text.splitlines() if line.strip()][-3:])
        return f"{printable(said, multiline=False)[:500]}; its log: {self.log}"

    def _wait_for_port(self) -> None:
        """Until what was killed listens no more; only the guard is a child, to be waited for."""
        end = time.monotonic() + LAST_MOMENTS
        while time.monotonic() < end:
            try:
                return check_port(self.spec.host, self.spec.port)
            except ServerError:
                time.sleep(PORT_POLL)

    async def _complete(self, timeout: float) -> None:
        try:
            await loopback.complete_one_token(self.url, self.spec.served_name, timeout)
        except ServerError:
            end = time.monotonic() + LAST_MOMENTS
            while time.monotonic() < end:
                if not self.alive:
                    raise OSError("it died of the request") from None
                await asyncio.sleep(POLL)
            raise

    def _stop(self, drain: float) -> None:
        seconds = max(drain, guard.GRACE)
        if self._process is not None and self._process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it is gone already
                self._process.stdin.write(f"{seconds}".encode())
                self._process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(seconds + MARGIN)
        self.kill()

    def _clear_away(self) -> None:
        """What a server that is gone has left: processes of its group, its record, our pipe."""
        if self._process is not None:
            _kill_group(self._process.pid)
            if self._process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    self._process.stdin.close()
            self._process = None
        if self._record is not None:
            release(self._record)
            self._record = None


def check_port(host: str, port: int) -> None:
    """Raise ServerError for a port in use, or that may not be used."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        # As servers do, so that connections just closed do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:  # the latter for a number that is no port
            raise ServerError(
                f"port {port} of {host} cannot be used ({error}): `srl serve status` "
                "lists this machine's servers; end what listens there or give another base_port"
            ) from error


def free_port(host: str, first: int) -> int:
    """The first port from `first` on that nobody uses, nor a server that only starts.

    Raises ServerError where there is none.
    """
    for port in range(first, 2**16):
        if not is_claimed(f"http://{host}:{port}"):
            with contextlib.suppress(ServerError):  # the next one may be free
                check_port(host, port)
                return port
    raise ServerError(f"no port of {host} from {first} on is free")


def _kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name)[:100]
