"""Signals that end a run: SIGINT and SIGTERM, which are handled when the run can be saved."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from srl_train import processes

_NOTICE = b"\ntraining ends after the current update; a second signal ends it at once\n"


def end(number: int, frame: object) -> None:
    """Ignore the signal `number` from now on, and raise SystemExit(128 + number)."""
    signal.signal(number, signal.SIG_IGN)  # A second signal would interrupt the exit.
    sys.exit(128 + number)


_REPLACED = (signal.SIG_DFL, signal.default_int_handler, end)


class Interrupts:
    """Context manager with handlers of SIGINT and SIGTERM; without effect outside the main thread.

    The first signal sets the event `stop` and prints a notice. In a block of `at_once`, and from
    the second signal on, it sets `stop` and raises KeyboardInterrupt; several torchrun processes
    only set `stop`. After a signal, the end of the block clears `stop`. If the first signal was
    SIGINT it raises KeyboardInterrupt, otherwise SystemExit(143), unless the block raised another
    exception. Handlers that the program installed are not replaced.
    """

    def __init__(self, stop: threading.Event) -> None:
        self.received: list[int] = []
        self._stop = stop
        self._at_once = False
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            self._process = os.getpid()
            for number in (signal.SIGINT, signal.SIGTERM):
                if signal.getsignal(number) in _REPLACED:
                    self._before[number] = signal.signal(number, self._receive)
        return self

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        if threading.current_thread() is not threading.main_thread():
            return
        while self._before:
            signal.signal(*self._before.popitem())
        received, self.received = self.received, []
        if received:
            self._stop.clear()
        if received and (kind is None or issubclass(kind, KeyboardInterrupt)):
            if received[0] == signal.SIGTERM:
                raise SystemExit(128 + signal.SIGTERM)
            raise KeyboardInterrupt

    @contextmanager
    def at_once(self) -> Iterator[None]:
        """Raise KeyboardInterrupt at a signal in this block, or at its start after a signal.

        The block must not change the run's state. Several torchrun processes are not interrupted.
        """
        if processes.count() > 1:  # All processes must stop at the same point.
            yield
            return
        self._at_once = True
        try:
            if self.received:
                raise KeyboardInterrupt
            yield
        finally:
            self._at_once = False

    def _receive(self, number: int, frame: object) -> None:
        if os.getpid() != self._process:  # A forked child handles the signal by its default.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self.received.append(number)
        self._stop.set()
        if processes.count() > 1:  # torchrun repeats signals that its processes received.
            return
        if self._at_once or len(self.received) > 1:
            raise KeyboardInterrupt
        os.write(2, _NOTICE)  # print is not reentrant.
