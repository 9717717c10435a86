"""Sinks of metrics rows: the protocol, and the JSON Lines file metrics.jsonl.

JSON has no NaN and no infinity. Such a number is written as null.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO, Protocol

from srl_agents.atomic_files import whole_file
from srl_envs.errors import DocumentError
from srl_envs.tables import Plugin, PluginTable
from srl_envs.untrusted import MAX_BYTES, read_json
from srl_train.errors import MetricsError
from srl_train.run_files import finite

SINKS = PluginTable(
    "core_srl.sinks",
    {"trackers": Plugin("srl_extensions.trackers.sink", "trackers of logging.trackers")},
    MetricsError,
)
"""Sinks that are opened from the configuration. Each module has `check(config) -> None`, which
raises an error before models are loaded, and `open_sink(config, folder, step) -> Sink | None`.
`step` is the number of complete rounds and passes."""
Opener = Callable[[Path], BinaryIO]


class Sink(Protocol):
    """Receiver of a metrics row per pass of a stage, then per round.

    All rows have `round`, `models` and `seconds`; a row of a round also has `environment`. A row
    of a stage has `stage` and `pass`; its `round` counts all passes from 0. Rounds restart at 0.

    A sink may have two more methods. `write_episodes(round_number, episodes)` receives all episodes
    of a round, including failed ones, after the round's row. `write_evaluation(when, measured)`
    receives an evaluation; `when` is "before", "after", or after a stage ("after_sft"). Sinks
    passed to a Trainer receive "after" after their `close`.
    """

    def write(self, row: Mapping[str, Any]) -> None:
        """Record a row, or raise MetricsError for a value that cannot be recorded."""

    def close(self) -> None:
        """Release files and terminals. A second call has no effect."""


class JsonlSink:
    """Sink that appends rows to a JSON Lines file, which the constructor opens.

    An incomplete last line is removed at opening.

    Args:
        path: File, which is created with its folder if it does not exist.
        resume_from_round: Existing rows of this and later rounds are removed; None keeps all rows.

    Raises:
        MetricsError: If another line is damaged, or the path is that of a folder or device. With
            `resume_from_round`, also if a row has no integer `round`.
    """

    def __init__(self, path: str | os.PathLike[str], resume_from_round: int | None = None) -> None:
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            _trim(path, resume_from_round)
        self._file = path.open("a", encoding="utf-8")

    def write(self, row: Mapping[str, Any]) -> None:
        """Append a row and flush the file; NaN and infinity become null.

        Raises MetricsError for a value that JSON cannot express.
        """
        try:
            line = json.dumps(finite(row), allow_nan=False)
        except TypeError as error:
            raise MetricsError(f"a metric must be plain data: {error}") from error
        self._file.write(line + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file; a second call has no effect."""
        self._file.close()


def read_metrics(path: str | os.PathLike[str]) -> list[dict[str, Any]]:
    """Read all rows of metrics.jsonl or stages.jsonl, except an incomplete last line.

    Args:
        path: The file, such as runs/demo/metrics.jsonl.

    Raises:
        MetricsError: If another line is damaged, or the path is that of a folder or device.
        FileNotFoundError: If the file does not exist.
    """
    return list(read_rows(Path(path)))


def open_plain(path: Path) -> BinaryIO:
    """Open a regular file to read bytes.

    Raises MetricsError for a folder, pipe or device, and FileNotFoundError for a missing file.
    """
    if path.exists() and not path.is_file():
        raise MetricsError(f"{path} must be a regular file")
    return path.open("rb")


def read_rows(path: Path, opened: Opener = open_plain) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file as `read_metrics`, one at a time; `opened(path)` opens the file.

    The errors are those of `read_metrics` and `opened`, raised during the iteration.
    """
    return (row for _, row in _whole_lines(path, opened))


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
                raise MetricsError(f"{path}: line {number} must be a mapping, got {line[:60]!r}")
            yield line.rstrip(b"\r\n"), row


def _trim(path: Path, from_round: int | None) -> None:
    kept = []
    for line, row in _whole_lines(path, open_plain):
        number = row.get("round") if from_round is not None else -1
        if not isinstance(number, int):
            raise MetricsError(f"{path}: round must be an integer, got {number!r}")
        if from_round is None or number < from_round:
            kept.append(line + b"\n")
    content = b"".join(kept)
    if content != path.read_bytes():
        with whole_file(path, "wb") as file:
            file.write(content)
