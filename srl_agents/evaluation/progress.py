"""Progress messages of long work, every few seconds in the log."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FIRST, BETWEEN = 2.0, 5.0
"""Seconds before the first message, and between two messages."""

log = logging.getLogger(__name__)


class LongWork:
    """Progress messages of one piece of work, such as "playing 32 episodes", at level INFO."""

    def __init__(self, work: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._work, self._clock = work, clock
        self._due = clock() + FIRST

    @property
    def due(self) -> bool:
        """True if the next call of `at` logs a message."""
        return self._clock() >= self._due

    def at(self, position: str) -> None:
        """Log the piece of work and its `position`, such as "step 3", if a message is due.

        The first is due FIRST seconds after the start, others BETWEEN seconds after the last one.
        """
        if self.due:
            log.info("%s: %s", self._work, position)
            self._due = self._clock() + BETWEEN


@contextmanager
def announced(message: str) -> Iterator[None]:
    """Log the message at level INFO, from another thread, if the block takes FIRST seconds."""
    timer = threading.Timer(FIRST, log.info, (message,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
