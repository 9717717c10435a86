"""Signals that end a run: SIGINT and SIGTERM, handled when the run's state is complete."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

from srl_train import processes

_TOLD = b"\ntraining ends after the current update and is saved; a second signal ends it at once\n"


def end(number: int, frame: object) -> None:
    """Handle a signal by exiting with the status that the signal itself gives."""
    signal.signal(number, signal.SIG_IGN)  # a second one would come between
    sys.exit(128 + number)


_REPLACED = (signal.SIG_DFL, signal.default_int_handler, end)


class Interrupts:
    """Handlers of SIGINT and SIGTERM in a `with` block of the main thread.

    The first signal sets `stop`, or raises KeyboardInterrupt in a block of `at_once`. A second one
    raises KeyboardInterrupt at any place. The end of the `with` block raises what the first
    signal means: KeyboardInterrupt, or SystemExit(143) for SIGTERM. Handlers that a program
    installed itself stay in place.
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
        """Let the first signal interrupt the block, which must not change the run's state."""
        if processes.count() > 1:  # All of them must stop at the same point.
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
        if os.getpid() != self._process:  # A forked child is ended by the signals of its parent.
            signal.signal(number, signal.SIG_DFL)
            os.kill(os.getpid(), number)
            return
        self.received.append(number)
        self._stop.set()
        if processes.count() > 1:  # torchrun hands on the signals that its processes had already.
            return
        if self._at_once or len(self.received) > 1:
            raise KeyboardInterrupt
        os.write(2, _TOLD)  # Unlike print, it may interrupt another print.
