"""Parent process of a server: ends the server's whole process group when the trainer is gone.

Run as a program, `python guard.py TRAINER COMMAND...`, as the leader of a process group; TRAINER is
the process number of its parent, which holds a pipe to its standard input. The group is ended when
the pipe closes or the parent is another one, so also when the trainer is killed; a number on the
pipe says how many seconds the server may take over its last answers. Standard library only.
"""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence

GRACE = 5.0
"""Seconds from the request to end to the end of the group, where nothing was said."""
INTERVAL = 0.5
"""Seconds between two looks at who the parent is: a child that the trainer forked may hold the pipe
open after it."""


def main(trainer: int, command: Sequence[str]) -> None:
    """Run the command and end with it and all that it started: it never returns."""
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def end(seconds: float) -> None:
        server.terminate()
        time.sleep(seconds)
        os.killpg(0, signal.SIGKILL)

    def asked_to_end(*_: object) -> None:
        threading.Thread(target=end, args=(GRACE,), daemon=True).start()

    def watch_trainer() -> None:
        end(_seconds_to_end(trainer))

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, asked_to_end)
    threading.Thread(target=watch_trainer, daemon=True).start()
    code = server.wait()
    print(f"guard: the server ended with code {code}", file=sys.stderr, flush=True)  # noqa: T201
    os.killpg(0, signal.SIGKILL)


def _seconds_to_end(trainer: int) -> float:
    """Wait until the server is to end; returns how long it may take."""
    while not select.select([0], [], [], INTERVAL)[0]:
        if os.getppid() != trainer:
            return GRACE
    return float(os.read(0, 32) or GRACE)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
