"""Process of one vLLM server: start, log, end."""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from srl_agents.errors import ServingError
from srl_agents.llm.model_folders import cache_folder
from srl_envs.untrusted import printable
from srl_extensions.vllm import launcher
from srl_extensions.vllm.command import HOST, ServerSpec, arguments, environment, program

PORTS = range(10_000, 32_000)
"""Ports below those that the kernel gives to connections."""
END_SECONDS = 4.0
"""Limit on the wait for the port of a killed server."""
MARGIN = 5.0
"""Seconds that the launcher may take in addition to its GRACE."""
LOG_BYTES = 256 * 1024
"""End of a log that is searched for the cause of a failure."""
ERROR_LINE = re.compile(r"^(?:\(.*?pid=\d+\) )?(?:ERROR \S+ \S+ \[.*?\] )?([\w.]+Error: .*)$", re.M)
"""Last line of a traceback, also after the prefix of vLLM's own log lines."""


class ModelServer:
    """Server on this machine, in a separate process group."""

    def __init__(self, spec: ServerSpec) -> None:
        """Prepare the command of `spec`; ServingError if `spec.python` is missing."""
        self.spec = spec
        name = re.sub(r"[^\w.-]", "_", spec.served_name)[:100]
        self.log = (spec.log_folder / f"{name}-{spec.port}.log").absolute()
        # The process runs in the folder of the log, which contains no importable module.
        model = os.path.abspath(spec.model) if os.path.isdir(spec.model) else spec.model
        self.command = arguments(replace(spec, python=program(spec.python), model=model))
        self.process: subprocess.Popen[bytes] | None = None
        self._log_start = 0

    def alive(self) -> bool:
        """Return True if the process runs; False before `start` too."""
        return (process := self.process) is not None and process.poll() is None

    def start(self) -> None:
        """Start the process and append its output to `log`.

        The kernel ends the server when the calling thread ends, so the thread must live as long as
        the server.

        Raises:
            ServingError: If the port is in use, the server runs already or the log is not writable.
        """
        if self.alive():
            raise ServingError(f"{self.spec.name} runs already")
        self.kill()
        try:
            self.log.parent.mkdir(parents=True, exist_ok=True)
            log = self.log.open("ab")
        except OSError as error:
            raise ServingError(f"no log can be written to {self.log} ({error.strerror})") from error
        with log:
            if not is_free(self.spec.port):
                raise ServingError(
                    f"port {self.spec.port} of {HOST} cannot be used: end the program "
                    "that listens there or give another base_port"
                )
            self._log_start = log.tell()
            self.process = subprocess.Popen(
                [sys.executable, launcher.__file__, str(os.getpid()), *self.command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment(self.spec, os.environ),
                cwd=self.log.parent,
                start_new_session=True,  # Signals of this terminal do not reach the new group.
            )

    def stop(self) -> None:
        """End the server, if it runs, and wait; open requests have 5 seconds to complete."""
        if (process := self.process) is not None and self.alive():
            process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(launcher.GRACE + MARGIN)
        self.kill()

    def kill(self) -> None:
        """Kill all processes of the last start; wait up to 4 seconds until the port is free."""
        process, self.process = self.process, None
        if process is None:
            return
        # The group may consist of another user's processes once all its own have ended.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        latest = time.monotonic() + END_SECONDS
        while not is_free(self.spec.port) and time.monotonic() < latest:
            time.sleep(0.02)

    def cause_of_death(self) -> str:
        """Return the first error in the log's last LOG_BYTES, else its last lines, and its path.

        Ignores lines before the last `start`.
        """
        if not self.log.is_file():
            return f"there is no log {self.log}"
        with self.log.open("rb") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(max(self._log_start, size - LOG_BYTES))
            text = file.read().decode(errors="replace")
        if error := ERROR_LINE.search(text):
            cause = error[1]
        else:
            cause = " / ".join([line.strip() for line in text.splitlines() if line.strip()][-3:])
        return f"{printable(cause, multiline=False)[:500]}; its log: {self.log}"


def logs_folder() -> Path:
    """Return the cache's folder "server-logs", for logs that belong to no run."""
    return cache_folder() / "server-logs"


def free_port(taken: Collection[int] = ()) -> int:
    """Return a random free port from 10000 to 31999 that is not in `taken`."""
    while True:
        port = secrets.choice(PORTS)
        if port not in taken and is_free(port):
            return port


def is_free(port: int) -> bool:
    """Return True if the port of 127.0.0.1 can be bound, False for an invalid port too."""
    with socket.socket() as probe:
        # Servers set the same option, so connections that were just closed do not count.
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((HOST, port))
        except (OSError, OverflowError):  # OverflowError is raised for an invalid port.
            return False
    return True
