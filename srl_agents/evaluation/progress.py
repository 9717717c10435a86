"""Progress messages of long work: a line every few seconds."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

T = TypeVar("T")

FIRST, BETWEEN = 2.0, 5.0
"""Seconds until the first line, and between two."""

log = logging.getLogger(__name__)


class LongWork:
    """Progress lines of long work, logged at level INFO."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        """`what` is being done, from now on."""
        self._what, self._clock = what, clock
        self._due = clock() + FIRST

    def at(self, where: str) -> None:
        """Log the position, at most every few seconds."""
        now = self._clock()
        if now >= self._due:
            log.info("%s: %s", self._what, where)
            self._due = now + BETWEEN


@contextmanager
def announced(what: str) -> Iterator[None]:
    """Log `what` if the block takes long."""
    line = threading.Timer(FIRST, log.info, (what,))
    line.daemon = True
    line.start()
    try:
        yield
    finally:
        line.cancel()


def watched(what: str, items: Sequence[T]) -> Iterator[T]:
    """Yield the items, with a progress line."""
    work = LongWork(what)
    for number, item in enumerate(items):
        yield item
        work.at(f"{number + 1} of {len(items)}")
