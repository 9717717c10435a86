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
import threading
import time
from abc import ABC, abstractmethod
from dataclasses import replace
from pathlib import Path

from srl_agents.errors import ServingError
from srl_agents.llm.cache_folder import cache_folder
from srl_agents.serving.command import ServerSpec, arguments, environment, program
from srl_agents.serving.process import guard, loopback
from srl_agents.serving.process.records import ServerRecord, claim, is_claimed, release
from srl_envs.loading.untrusted import printable

POLL = 0.25
"""Seconds between two looks at a server that starts."""
END_POLL = 0.02
"""Seconds between two looks at what a server that was killed still holds."""
LAST_MOMENTS = 4.0
"""Seconds in which a server ends that was killed, or whose engine died of a request and said so."""
MARGIN = 10.0
"""Seconds after which the guard has ended, at the latest, once its server's time is over."""
LOG_BYTES = 256 * 1024
"""Of the log that a cause of death is looked for in."""
ERROR_LINE = re.compile(r"^(?:\(.*?pid=\d+\) )?(?:ERROR \S+ \S+ \[.*?\] )?([\w.]+Error: .*)$", re.M)
"""A traceback's last line, as it is or behind vLLM's own words."""


class Server(ABC):
    """A server that can be started, and started again: on this machine, or through somebody who
    runs it on another one."""

    def __init__(self, spec: ServerSpec) -> None:
        """Nothing starts yet."""
        self.spec, self.url, self.name = spec, spec.url, f"{spec.served_name} at {spec.url}"

    def __repr__(self) -> str:
        return f"<server of {self.name}>"

    @property
    @abstractmethod
    def alive(self) -> bool:
        """Whether the process runs, which it does before and after it can answer."""

    @abstractmethod
    def start(self) -> None:
        """Start the process. Raises ServingError where that cannot be."""

    @abstractmethod
    async def stop(self, drain: float = 0.0) -> None:
        """End the server; it has `drain` seconds to finish the answers under way."""

    @abstractmethod
    def kill(self) -> None:
        """End the process group at once, and clear away what it leaves; it can start again."""

    @abstractmethod
    def cause_of_death(self) -> str:
        """Why it ended, as far as its log tells."""

    @abstractmethod
    def lay(self, folder: Path) -> Path:
        """Where the server finds the files of a folder of this machine, which are brought to it."""

    @abstractmethod
    def clear(self, folder: Path) -> None:
        """Remove what `lay` brought for that folder."""

    async def runs(self) -> bool:
        """`alive`, asked in a thread: to look may take a while."""
        return await asyncio.to_thread(lambda: self.alive)

    async def wait_ready(self, timeout: float) -> None:
        """Wait until the server has really completed a token.

        Raises ServingError where it dies before, with the cause from its log, where it refuses, and
        after `timeout` seconds.
        """
        end = time.monotonic() + timeout
        while (left := end - time.monotonic()) > 0:
            if not await self.runs():
                cause = await asyncio.to_thread(self.cause_of_death)
                raise ServingError(f"{self.name} ended as it started: {cause}")
            with contextlib.suppress(OSError):  # it does not listen yet, or died of the request
                if await loopback.healthy(self.url, left, self.spec.key):
                    return await self._complete(left)
            await asyncio.sleep(POLL)
        raise ServingError(f"{self.name} was not ready after {timeout:g} s; {self._log_place()}")

    @abstractmethod
    def _log_place(self) -> str:
        """Where its log is."""

    async def _complete(self, timeout: float) -> None:
        try:
            await loopback.complete_one_token(
                self.url, self.spec.served_name, timeout, self.spec.key
            )
        except ServingError:
            end = time.monotonic() + LAST_MOMENTS
            while time.monotonic() < end:
                if not await self.runs():
                    raise OSError("it died of the request") from None
                await asyncio.sleep(POLL)
            raise


class ModelServer(Server):
    """One server in a process group of its own under a guard, which ends it with this process."""

    def __init__(self, spec: ServerSpec) -> None:
        """Raises ServingError for a specification that vLLM cannot be started with."""
        super().__init__(spec)
        log = spec.log_folder / f"{_file_name(spec.served_name)}-{spec.port}.log"
        self.log: Path = log.absolute()
        # The process runs in the log's folder, where nothing of ours can be imported by mistake.
        model = os.path.abspath(spec.model) if os.path.isdir(spec.model) else spec.model
        self._command = arguments(replace(spec, python=program(spec.python), model=model))
        self._process: subprocess.Popen[bytes] | None = None
        self._record: Path | None = None
        self._log_start = 0
        # Who kills it and who then starts it again may be in different threads.
        self._one_at_a_time = threading.Lock()

    @property
    def alive(self) -> bool:
        """See Server."""
        process = self._process
        return process is not None and process.poll() is None

    def start(self) -> None:
        """Start the process; what it writes is added to `log`.

        Raises ServingError where the port is in use, the server runs already or no log can be
        written.
        """
        with self._one_at_a_time:
            if self.alive:
                raise ServingError(f"{self.name} runs already")
            self._end()
            self._begin()

    async def stop(self, drain: float = 0.0) -> None:
        """See Server."""
        await asyncio.to_thread(self._stop, drain)

    def kill(self) -> None:
        """See Server."""
        with self._one_at_a_time:
            self._end()

    def _begin(self) -> None:
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            self.log.touch()
        except OSError as error:
            raise ServingError(f"no log can be written to {self.log} ({error.strerror})") from error
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

    def cause_of_death(self) -> str:
        """The first error in the log since the last start, else its last words, and its place."""
        with self.log.open("rb") as file:
            file.seek(self._log_start)
            text = file.read(LOG_BYTES).decode(errors="replace")
        if error := ERROR_LINE.search(text):
            said = error[1]
        else:
            said = " / ".join([line.strip() for line in text.splitlines() if line.strip()][-3:])
        return f"{printable(said, multiline=False)[:500]}; {self._log_place()}"

    def _log_place(self) -> str:
        return f"its log: {self.log}"

    def lay(self, folder: Path) -> Path:
        """See Server; it sees the folder itself."""
        return folder

    def clear(self, folder: Path) -> None:
        """See Server; nothing was brought."""

    def _stop(self, drain: float) -> None:
        seconds = max(drain, guard.GRACE)
        process = self._process
        if process is not None and process.stdin is not None:
            with contextlib.suppress(BrokenPipeError):  # it is gone already
                process.stdin.write(f"{seconds}".encode())
                process.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(seconds + MARGIN)
        self.kill()

    def _end(self) -> None:
        """End all processes of the last start, wait for their end, and remove its record."""
        if self._process is not None:
            _signal(self._process.pid, signal.SIGKILL)
            self._process.wait()
            if self._process.stdin is not None:
                with contextlib.suppress(BrokenPipeError):
                    self._process.stdin.close()
            self._wait_for_the_rest(self._process.pid)
            self._process = None
        if self._record is not None:
            release(self._record)
            self._record = None

    def _wait_for_the_rest(self, group: int) -> None:
        """Until the killed processes that are no children of ours are gone, too.

        Where nobody reaps orphans, as in many containers, they stay in the group as zombies: then
        it is enough that they hold neither the record nor the port. What another server holds
        after them is not waited for.
        """
        latest = time.monotonic() + LAST_MOMENTS
        while _signal(group, 0) and self._holds_something() and time.monotonic() < latest:
            time.sleep(END_POLL)

    def _holds_something(self) -> bool:
        try:
            check_port(self.spec.host, self.spec.port)
        except ServingError:
            return True
        return self._record is not None and not release(self._record)


def logs_folder() -> Path:
    """Where servers write their logs that belong to no run's folder."""
    return cache_folder() / "server-logs"


def check_port(host: str, port: int) -> None:
    """Raise ServingError for a port in use, or that may not be used."""
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        # As servers do, so that connections just closed do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except (OSError, OverflowError) as error:  # the latter for a number that is no port
            raise ServingError(
                f"port {port} of {host} cannot be used ({error}): `srl serve status` "
                "lists this machine's servers; end what listens there or give another base_port"
            ) from error


def free_port(host: str, first: int) -> int:
    """The first port from `first` on that nobody uses, nor a server that only starts.

    Raises ServingError where there is none.
    """
    for port in range(first, 2**16):
        if not is_claimed(f"http://{host}:{port}"):
            with contextlib.suppress(ServingError):  # the next one may be free
                check_port(host, port)
                return port
    raise ServingError(f"no port of {host} from {first} on is free")


def _signal(group: int, number: int) -> bool:
    """Signal a process group of ours; returns whether there is one. Number 0 only asks."""
    try:
        os.killpg(group, number)
    except (ProcessLookupError, PermissionError):  # the latter where the number is another user's
        return False
    return True


def _file_name(name: str) -> str:
    return re.sub(r"[^\w.-]", "_", name)[:100]
