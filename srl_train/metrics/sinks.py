"""Sinks of metrics rows: a JSON-lines file, or several sinks at once.

JSON has no NaN and no infinity. Such a number is written as null, and the row says so under
`not_finite`: a list of [path of keys, "nan" | "inf" | "-inf"]. `read_metrics` puts the numbers
back, so nothing is lost, and any other JSON reader can still read the file.
"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from srl_agents.atomic_files import whole_file
from srl_agents.episode import Episode
from srl_envs.errors import DocumentError
from srl_envs.tables import Plugin, PluginTable
from srl_envs.untrusted import read_bytes, read_json
from srl_train.metrics.errors import MetricsError

if TYPE_CHECKING:
    from srl_envs.text import TextView
    from srl_train.config.run import RunConfig

SINKS = PluginTable(
    "core_srl.sinks",
    {"trackers": Plugin("srl_extensions.trackers.sink", "the trackers in logging.trackers")},
    MetricsError,
)
"""Sinks that a configuration opens. Each module has `check(config) -> None`, which raises before
anything is loaded, and `open_sink(context) -> ConfiguredSink | None`."""
NOT_FINITE = "not_finite"
"""The key of a row that tells which of its nulls were NaN or infinite."""


LARGEST = 2**30
"""Bytes of a file of rows; a hundred thousand rounds of four models take a third of it."""


class Sink(Protocol):
    """Takes one row of metrics per pass of a stage, then one per round.

    A stage's row has `stage` and `pass`, a round's has `environment`; both have `round`, `models`
    and `seconds`: the stages' passes are counted apart from the rounds, each from 0.
    """

    def write(self, row: Mapping[str, Any]) -> None:
        """Take one row. Raises MetricsError for what cannot be recorded."""
        ...

    def close(self) -> None:
        """Let go of files and terminals; calling it twice does no harm."""
        ...


@runtime_checkable
class Watcher(Sink, Protocol):
    """A sink that is handed the games and the evaluations as well."""

    def write_episodes(self, round_number: int, episodes: Sequence[Episode]) -> None:
        """Take all games of a round, failed ones included; its row came before."""
        ...

    def write_evaluation(self, when: str, measured: Mapping[str, Any]) -> None:
        """Take an evaluation: `before` or `after` training, or after a stage (`after_sft`), and
        what `srl_train.engine.evaluation.evaluate` measured. The last comes after `close`."""
        ...


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
    """Evaluations that were made before, by when they were made."""


class ConfiguredSink(Protocol):
    """Sink that was opened from a configuration. Calls return without waiting for a server."""

    def write(self, row: Mapping[str, Any]) -> None:
        """Take the row of a pass or of a round."""
        ...

    def write_samples(self, number: int, episodes: Sequence[Episode], view: TextView) -> None:
        """Take the sample episodes of round `number`."""
        ...

    def write_evaluation(self, when: str, measured: Mapping[str, Any]) -> None:
        """Take an evaluation."""
        ...

    def close(self, finished: bool = False) -> None:
        """End the record; `finished` is true if the training is complete."""
        ...


class JsonlSink:
    """Appends rows to a file, one JSON object per line, flushed to the system row by row.

    A last line that a killed writer left half written is cut when the file is opened. With
    `resume_from_round=k` the rows of round k and later go too, whole or not at all, so that a
    run continued at round k has each round exactly once. Raises MetricsError for a file damaged
    elsewhere than in its last line.
    """

    def __init__(self, path: str | os.PathLike[str], resume_from_round: int | None = None) -> None:
        self._path = Path(path)
        self._path.parent.mkdir(parents=True, exist_ok=True)
        if self._path.exists():
            _trim(self._path, resume_from_round)
        self._file = self._path.open("a", encoding="utf-8")

    def write(self, row: Mapping[str, Any]) -> None:
        """Append the row; once this returns, killing the process does not lose it."""
        self._file.write(_line(row) + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


class Tee:
    """Hands every row to several sinks, in order."""

    def __init__(self, *sinks: Sink) -> None:
        self._sinks = sinks

    def write(self, row: Mapping[str, Any]) -> None:
        """Hand the row on."""
        for sink in self._sinks:
            sink.write(row)

    def close(self) -> None:
        """Close every sink, also where another one fails to close."""
        with ExitStack() as stack:
            for sink in reversed(self._sinks):
                stack.callback(sink.close)


def read_metrics(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """The rows of a file, in order; a half-written last line is left out.

    Raises MetricsError, with the line's number, for a damaged line before the last.
    """
    rows = []
    for _, row in _whole_lines(Path(path)):
        try:
            rows.append(_restored(row))
        except (LookupError, TypeError, ValueError) as error:
            raise MetricsError(f"{path}: a row's {NOT_FINITE} names no place in it") from error
    return rows


def _line(row: Mapping[str, Any]) -> str:
    if NOT_FINITE in row:
        raise MetricsError(f"a row may not use the key {NOT_FINITE!r}: the file format needs it")
    missing: list[list[Any]] = []
    plain = _plain(row, (), missing)
    if missing:
        plain[NOT_FINITE] = missing
    return json.dumps(plain, allow_nan=False)


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
        "allowed are numbers, text, null, lists and mappings: convert it first"
    )


def _restored(row: dict[str, Any]) -> dict[str, Any]:
    for path, number in row.pop(NOT_FINITE, ()):
        *parents, last = path
        place: Any = row
        for key in parents:
            place = place[int(key)] if isinstance(place, list) else place[key]
        place[int(last) if isinstance(place, list) else last] = float(number)
    return row


def _whole_lines(path: Path) -> list[tuple[bytes, dict[str, Any]]]:
    try:
        lines = read_bytes(path, LARGEST).splitlines()
    except DocumentError as error:
        raise MetricsError(f"{path} cannot be read: {error}") from error
    whole: list[tuple[bytes, dict[str, Any]]] = []
    for number, line in enumerate(lines, start=1):
        try:
            row = read_json(line)
        except DocumentError as error:
            if number == len(lines):
                break
            raise MetricsError(
                f"{path}: line {number} is damaged ({error}); remove it or restore the file"
            ) from error
        if not isinstance(row, dict):
            raise MetricsError(f"{path}: line {number} is not a row of metrics: {line[:60]!r}")
        whole.append((line, row))
    return whole


def _trim(path: Path, from_round: int | None) -> None:
    kept = [
        line
        for line, row in _whole_lines(path)
        if from_round is None or _round_of(row, path) < from_round
    ]
    content = b"".join(line + b"\n" for line in kept)
    if content == path.read_bytes():
        return
    with whole_file(path, "wb") as file:
        file.write(content)


def _round_of(row: Mapping[str, Any], path: Path) -> int:
    number = row.get("round")
    if not isinstance(number, int):
        raise MetricsError(f"{path}: a row has round {number!r}; it must be a whole number")
    return number
