"""Launcher of a model server: ends the server's process group when its trainer ends.

The process TRAINER runs `python launcher.py TRAINER COMMAND...` as the leader of a new process
group. The kernel signals the launcher when TRAINER ends, also after SIGKILL. The launcher consists
of two processes, and each ends the group when the other is killed: Ray kills the children of its
workers. Standard library only.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

GRACE = 5
"""Seconds between the end of the trainer and the end of the group."""
PR_SET_PDEATHSIG = 1


def main(trainer: int, command: Sequence[str]) -> None:
    """Run the command until the command, the trainer or one launcher process ends; never return."""
    outer = os.getpid()
    _end_with(trainer)
    inner = os.fork()
    if inner == 0:
        _end_with(outer)
        _run(command)
    signal.signal(signal.SIGTERM, lambda *_: os.kill(inner, signal.SIGTERM))
    os.waitpid(inner, 0)
    _end_group()


def _end_with(parent: int) -> None:
    """Let the kernel send SIGTERM to this process when its parent ends."""
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:  # The parent ended before the call.
        os.kill(os.getpid(), signal.SIGTERM)


def _run(command: Sequence[str]) -> None:
    """Run the server, which has GRACE seconds to end after SIGTERM."""
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def end_within_grace(*_: Any) -> None:
        signal.alarm(GRACE)
        server.terminate()

    signal.signal(signal.SIGALRM, _end_group)
    signal.signal(signal.SIGTERM, end_within_grace)
    code = server.wait()
    print(f"launcher: the server ended with code {code}", file=sys.stderr, flush=True)  # noqa: T201
    _end_group()


def _end_group(*_: Any) -> None:
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
