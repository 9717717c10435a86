"""Sinks of metrics rows: a JSON-lines file, or several sinks at once.

JSON has no NaN and no infinity. Such a number is written as null, and the row lists it under
`not_finite`: [path of keys, "nan" | "inf" | "-inf"]. `read_metrics` restores the numbers.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol, runtime_checkable

import numpy as np

from srl_agents.atomic_files import whole_file
from srl_agents.episode import Episode
from srl_envs.errors import DocumentError
from srl_envs.tables import Plugin, PluginTable
from srl_envs.untrusted import MAX_BYTES, read_json
from srl_train.metrics.errors import MetricsError

if TYPE_CHECKING:
    from srl_train.config.run import RunConfig

SINKS = PluginTable(
    "core_srl.sinks",
    {"trackers": Plugin("srl_extensions.trackers.sink", "the trackers in logging.trackers")},
    MetricsError,
)
"""Sinks that a configuration opens. Each module has `check(config) -> None`, which raises before
anything is loaded, and `open_sink(context) -> ConfiguredSink | None`."""
NOT_FINITE = "not_finite"
"""Key of a row that lists its numbers that are not finite."""
Opener = Callable[[Path], BinaryIO]


class Sink(Protocol):
    """Receiver of one row of metrics per pass of a stage, then one per round.

    A stage's row has `stage` and `pass`, a round's has `environment`; both have `round`, `models`
    and `seconds`. Passes and rounds are counted separately, each from 0.
    """

    def write(self, row: Mapping[str, Any]) -> None:
        """Record a row. Raises MetricsError for a value that cannot be recorded."""

    def close(self) -> None:
        """Release files and terminals; a second call has no effect."""


@runtime_checkable
class Watcher(Sink, Protocol):
    """Sink that also receives episodes and evaluations."""

    def write_episodes(self, round_number: int, episodes: Sequence[Episode]) -> None:
        """Record all episodes of a round, including failed ones, after its row."""

    def write_evaluation(self, when: str, measured: Mapping[str, Any]) -> None:
        """Record an evaluation `before` or `after` training, or after a stage (`after_sft`).

        The last evaluation is written after `close`.
        """


@dataclass(frozen=True)
class SinkContext:
    """Arguments for opening a sink of SINKS."""

    config: RunConfig
    folder: Path
    """Run folder, with the rows before `position`."""
    stages: Mapping[str, int]
    """Stage before the rounds to its number of passes, in order."""
    position: tuple[int, int]
    """Number of rounds and of passes that are complete."""
    evaluations: Mapping[str, Mapping[str, Any]]
    """Earlier evaluations by their time."""


class ConfiguredSink(Protocol):
    """Sink that was opened from a configuration. Calls return without waiting for a server."""

    def write(self, row: Mapping[str, Any]) -> None:
        """Record the row of a pass or of a round."""

    def write_evaluation(self, when: str, measured: Mapping[str, Any]) -> None:
        """Record an evaluation."""

    def close(self, finished: bool = False) -> None:
        """End the record; `finished` is true if the training is complete."""


class JsonlSink:
    """File with one JSON object per line, flushed row by row.

    An incomplete last line, left by a killed process, is removed when the file is opened.

    Args:
        path: File, created if missing.
        resume_from_round: Remove the rows of this round and later.

    Raises:
        MetricsError: If the file is damaged before its last line.
    """

    def __init__(self, path: str | os.PathLike[str], resume_from_round: int | None = None) -> None:
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            _trim(path, resume_from_round)
        self._file = path.open("a", encoding="utf-8")

    def write(self, row: Mapping[str, Any]) -> None:
        """Append the row; afterwards a kill of the process does not lose it."""
        if NOT_FINITE in row:
            raise MetricsError(f"a row may not use the key {NOT_FINITE!r} of the file format")
        missing: list[list[Any]] = []
        plain = _plain(row, (), missing)
        if missing:
            plain[NOT_FINITE] = missing
        self._file.write(json.dumps(plain, allow_nan=False) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Tee:
    """Several sinks that receive every row in order."""

    def __init__(self, *sinks: Sink) -> None:
        self._sinks = sinks

    def write(self, row: Mapping[str, Any]) -> None:
        """Write the row to all sinks."""
        for sink in self._sinks:
            sink.write(row)

    def close(self) -> None:
        """Close every sink, even if another one fails to close."""
        with ExitStack() as stack:
            for sink in reversed(self._sinks):
                stack.callback(sink.close)


def read_metrics(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Read the rows of a file in order, without an incomplete last line.

    Raises MetricsError, with the line's number, for a damaged line before the last.
    """
    return list(read_rows(Path(path)))


def open_plain(path: Path) -> BinaryIO:
    """Open a file for reading. Raises MetricsError for folders, pipes and devices."""
    if path.exists() and not path.is_file():
        raise MetricsError(f"{path} is not a plain file")
    return path.open("rb")


def read_rows(path: Path, opened: Opener = open_plain) -> Iterator[dict[str, Any]]:
    """Yield the rows as `read_metrics`, one at a time, from a file opened by `opened`."""
    for _, row in _whole_lines(path, opened):
        try:
            for keys, number in row.pop(NOT_FINITE, ()):
                *parents, last = keys
                place: Any = row
                for key in parents:
                    place = place[int(key)] if isinstance(place, list) else place[key]
                place[int(last) if isinstance(place, list) else last] = float(number)
        except (LookupError, TypeError, ValueError) as error:
            raise MetricsError(f"{path}: a row's {NOT_FINITE} names no place in it") from error
        yield row


def _plain(value: Any, path: tuple[str, ...], missing: list[list[Any]]) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(entry, (*path, str(key)), missing) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry, (*path, str(i)), missing) for i, entry in enumerate(value)]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        missing.append([list(path), str(value)])
        return None
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise MetricsError(
        f"metric {'.'.join(path)} is a {type(value).__name__}; "
        "allowed: numbers, text, null, lists and mappings"
    )


def _whole_lines(path: Path, opened: Opener) -> Iterator[tuple[bytes, dict[str, Any]]]:
    with opened(path) as file:
        lines = iter(partial(file.readline, MAX_BYTES + 1), b"")
        for number, line in enumerate(lines, start=1):
            try:
                row = read_json(line)
            except DocumentError as error:
                if not line.endswith(b"\n") and len(line) <= MAX_BYTES:
                    return
                raise MetricsError(
                    f"{path}: line {number} is damaged ({error}); remove it or restore the file"
                ) from error
            if not isinstance(row, dict):
                raise MetricsError(f"{path}: line {number} is not a row of metrics: {line[:60]!r}")
            yield line.rstrip(b"\r\n"), row


def _trim(path: Path, from_round: int | None) -> None:
    """Remove the rows of `from_round` and later, and an incomplete last line."""
    kept = []
    for line, row in _whole_lines(path, open_plain):
        number = row.get("round") if from_round is not None else -1
        if not isinstance(number, int):
            raise MetricsError(f"{path}: round is {number!r}, must be a whole number")
        if from_round is None or number < from_round:
            kept.append(line + b"\n")
    content = b"".join(kept)
    if content != path.read_bytes():
        with whole_file(path, "wb") as file:
            file.write(content)
