"""Activity of a run: the time spans of rollouts and of each model's learning."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from srl_train.metrics.errors import MetricsError
from srl_train.metrics.sinks import JsonlSink, read_metrics

PLAY = "play"
"""Name of the spans of rollouts; other spans have the model's name."""


@dataclass(frozen=True)
class Span:
    """One line of activity.jsonl."""

    who: str
    """`play` or a model."""
    round: int
    """Round of the rollout or of the update."""
    start: float
    """Seconds since the start of the run, without the time between stop and resume."""
    end: float


class Activity:
    """Current activities, recorded in the file `path` from round `from_round` on. Thread-safe."""

    def __init__(self, path: Path | None, from_round: int = 0) -> None:
        self._sink = None if path is None else JsonlSink(path, resume_from_round=from_round)
        before = [] if path is None else read_activity(path)
        self._zero = time.perf_counter() - max((span.end for span in before), default=0.0)
        self._lock = threading.Lock()
        self._open: dict[int, tuple[str, int, float]] = {}
        self._started = 0
        self._since = self.now()
        self._seconds = dict.fromkeys(("rollout", "train", "overlap"), 0.0)

    def now(self) -> float:
        """Return the seconds since the start of the run."""
        return time.perf_counter() - self._zero

    def begin(self, who: str, round_number: int) -> int:
        """Start a span and return its number."""
        with self._lock:
            self._count()
            self._started += 1
            self._open[self._started] = (who, round_number, self._since)
            return self._started

    def end(self, span: int) -> None:
        """End a span and record it."""
        with self._lock:
            self._count()
            who, number, start = self._open.pop(span)
            if self._sink is not None:
                self._sink.write(asdict(Span(who, number, start, self._since)))

    def seconds(self) -> dict[str, float]:
        """Return the seconds of rollouts (`rollout`), learning (`train`) and both (`overlap`)
        since the last call."""
        with self._lock:
            self._count()
            counted, self._seconds = self._seconds, dict.fromkeys(self._seconds, 0.0)
            return counted

    def close(self) -> None:
        """Close the file."""
        if self._sink is not None:
            self._sink.close()

    def _count(self) -> None:
        """Add the time since the last change to the current activities."""
        now = self.now()
        busy = {who == PLAY for who, _, _ in self._open.values()}
        passed, self._since = now - self._since, now
        self._seconds["rollout"] += passed * (True in busy)
        self._seconds["train"] += passed * (False in busy)
        self._seconds["overlap"] += passed * (len(busy) == 2)


def read_activity(path: str | os.PathLike[str]) -> list[Span]:
    """Read the spans of a file, in the order in which they ended.

    Raises MetricsError, with the line's number, for a damaged line before the last.
    """
    return [span(path, place, row) for place, row in enumerate(read_metrics(path), start=1)]


def span(path: str | os.PathLike[str], place: int, row: Mapping[str, Any]) -> Span:
    """Return the span of one line. Raises MetricsError, with the line's number, if it is none."""
    kinds = {"who": str, "round": int, "start": int | float, "end": int | float}
    if row.keys() != kinds.keys() or not all(isinstance(row[n], kinds[n]) for n in kinds):
        raise MetricsError(
            f"{path}: line {place} is no span: it needs {', '.join(kinds)} and nothing else"
        )
    if not 0 <= row["start"] < row["end"] < math.inf:
        raise MetricsError(
            f"{path}: line {place} lasts from {row['start']} to {row['end']}, must be seconds from "
            "0 on with the end after the start"
        )
    return Span(**row)
