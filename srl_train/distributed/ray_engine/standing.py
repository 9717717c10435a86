"""Workers in processes of their own, and their successors where a process dies."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any, Protocol

from srl_train.errors import TrainingError

MOST_DEATHS = 3
"""Workers that one call may cost: the call itself is what kills them then."""

log = logging.getLogger(__name__)


class WorkerLost(Exception):
    """The process of a worker died, or its node."""


class Worker(Protocol):
    """An object in a process of its own."""

    def call(self, method: str, *arguments: Any) -> Any:
        """What the method gives, and what it raises; raises WorkerLost where its process died."""
        ...

    def stop(self) -> None:
        """End its process."""
        ...


class Places(Protocol):
    """Where the workers of a run are made: players first, then a learner for each model, then model
    servers."""

    def actor(self, places: range, kind: Callable[..., Any], *arguments: Any) -> Worker:
        """A worker that holds what `kind` gives for the arguments; of several places, processes
        that hold one each, for which `kind` is given their Rank besides."""
        ...

    def host(self, place: int) -> str:
        """The address at which all workers reach what listens there."""
        ...

    def put(self, value: Any) -> Any:
        """Something that may be given to calls in the value's place, once or more often."""
        ...

    def close(self) -> None:
        """End all of it."""
        ...


class StandingWorker:
    """A worker that is made anew when it dies, and asked again what it did not answer."""

    def __init__(
        self, name: str, start: Callable[[], Worker], prepare: Callable[[Worker], None]
    ) -> None:
        """`start` makes the worker, now and after each death; `prepare` brings one that was just
        made to where the last one stood."""
        self.name = name
        self.deaths = 0
        self._start = start
        self._prepare = prepare
        self._worker: Worker | None = None
        self._closed = False
        self._lock = threading.RLock()

    @property
    def stands(self) -> bool:
        """Whether there is one now, as far as was heard."""
        return self._worker is not None and not self._closed

    def call(self, method: str, *arguments: Any) -> Any:
        """What the worker's method gives, one call at a time.

        Raises what the method raises, and TrainingError where MOST_DEATHS workers in a row died of
        the call or of being made.
        """
        with self._lock:
            deaths = 0
            while True:
                try:
                    if self._worker is None:
                        self._worker = self._start()
                        self._prepare(self._worker)
                    return self._worker.call(method, *arguments)
                except WorkerLost as lost:
                    if self._closed:
                        raise TrainingError(f"{self.name} was ended with the run") from lost
                    self._worker = None
                    self.deaths += 1
                    deaths += 1
                    log.warning("%s died (%s) and is made anew", self.name, lost)
                    if deaths == MOST_DEATHS:
                        raise TrainingError(
                            f"{self.name} died {deaths} times in a row, of {method}: {lost}; look "
                            "at its node's memory, and at Ray's logs there (/tmp/ray)"
                        ) from lost

    def close(self) -> None:
        """End the worker, in whatever it does."""
        self._closed = True
        worker = self._worker
        if worker is not None:
            worker.stop()
