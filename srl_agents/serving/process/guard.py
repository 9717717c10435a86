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
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
INTERVAL = 0.5
"""Seconds between two looks at who the parent is: a child that the trainer forked may hold the pipe
open after it."""


def main(trainer: int, command: Sequence[str]) -> None:
    """Run the command and end with it and all that it started: it never returns.

    Two processes do it, of which either ends the group when the other is killed: Ray kills the
    children of its workers as they end, and nobody else.
    """
    outer = os.getpid()
    inner = os.fork()
    if inner:
        _stand_between(trainer, inner)
    _guard(outer, command)


def _stand_between(trainer: int, guard: int) -> None:
    """Wait for the end of trainer or guard; never returns."""

    def pass_on(number: int, _: object) -> None:
        os.kill(guard, number)

    for number in SIGNALS:
        signal.signal(number, pass_on)
    while os.getppid() == trainer:
        if os.waitpid(guard, os.WNOHANG)[0]:
            os.killpg(0, signal.SIGKILL)
        time.sleep(INTERVAL)
    os._exit(0)  # which the guard notices


def _guard(parent: int, command: Sequence[str]) -> None:
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL)

    def end(seconds: float) -> None:
        server.terminate()
        time.sleep(seconds)
        os.killpg(0, signal.SIGKILL)

    def asked_to_end(*_: object) -> None:
        threading.Thread(target=end, args=(GRACE,), daemon=True).start()

    def watch_parent() -> None:
        end(_seconds_to_end(parent))

    for number in SIGNALS:
        signal.signal(number, asked_to_end)
    threading.Thread(target=watch_parent, daemon=True).start()
    code = server.wait()
    print(f"guard: the server ended with code {code}", file=sys.stderr, flush=True)  # noqa: T201
    os.killpg(0, signal.SIGKILL)


def _seconds_to_end(parent: int) -> float:
    """Wait until the server is to end; returns how long it may take."""
    while not select.select([0], [], [], INTERVAL)[0]:
        if os.getppid() != parent:
            return GRACE
    return float(os.read(0, 32) or GRACE)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
