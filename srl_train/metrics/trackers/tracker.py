"""Tracker of one library: what it is opened with, and what it is handed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from srl_train.config.logging import LoggingConfig
from srl_train.metrics.trackers.games import Row


@dataclass(frozen=True)
class Opening:
    """What a tracker is opened with."""

    config: LoggingConfig
    folder: Path
    """The run's."""
    name: str
    """The run's."""
    settings: Mapping[str, int | float | str]
    """The run's configuration by dotted names, without secrets."""
    step: int
    """From which the run goes on; what was recorded of this step and later comes again."""
    known_as: str | None
    """By which the library knows the run that goes on; None for one that it does not know yet."""


class Tracker(Protocol):
    """A run in one library. Whatever it cannot do raises, whatever the library's error."""

    known_as: str
    """By which the run is found again; text of letters, digits and some signs."""
    hides_from: int | None
    """The step from which on it hides what it has, and wants it again; None where it hides none."""

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Record numbers of one step."""
        ...

    def table(self, rows: Sequence[Row], step: int) -> None:
        """Record sample games (`games.COLUMNS`)."""
        ...

    def close(self, finished: bool) -> None:
        """Hand over what is left, and say whether the run is finished."""
        ...
