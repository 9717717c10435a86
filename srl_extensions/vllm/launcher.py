"""Launcher of a model server: ends the server's process group when its trainer ends.

The process TRAINER runs `python launcher.py TRAINER COMMAND...` as the leader of a new process
group. The kernel signals the launcher when TRAINER ends, also after SIGKILL. Standard library only.
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
    """Run the command until it or the trainer ends, then kill this process group; never return.

    `trainer` is the parent's process id. At its end or on SIGTERM, the command has 5 s to end.
    """
    server: subprocess.Popen[bytes] | None = None

    def end_within_grace(*_: Any) -> None:
        signal.alarm(GRACE)
        if server is not None:
            server.terminate()

    signal.signal(signal.SIGALRM, _end_group)
    signal.signal(signal.SIGTERM, end_within_grace)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != trainer:  # The trainer ended before the call.
        _end_group()
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL)
    code = server.wait()
    print(f"launcher: the server ended with code {code}", file=sys.stderr, flush=True)  # noqa: T201
    _end_group()


def _end_group(*_: Any) -> None:
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
