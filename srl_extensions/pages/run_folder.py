"""Reader of run folders: rows, stages, summary and configuration.

Runs that are running or were stopped can be read, too; `RecordedRun.notes` lists missing parts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Required

from pydantic import Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from srl_envs.errors import DocumentError
from srl_envs.loading import MAX_YAML, read_yaml
from srl_envs.untrusted import MAX_BYTES, read_json
from srl_train.errors import RunFolderError
from srl_train.metrics.sinks import Opener, open_plain, read_rows

LARGEST = 1e100
"""Limit of the magnitude of numbers; sums of squares of such numbers are finite."""
Row = Mapping[str, Any]
_Numbers = dict[str, Annotated[float, Field(gt=-LARGEST, lt=LARGEST)]]


class _Model(TypedDict, total=False):
    seats: list[str] | None


class _Environment(TypedDict, total=False):
    winners: _Numbers | None


class _RecordedRow(TypedDict, total=False):
    """Row of a round (with `environment`) or of a pass over the data of a stage (with `stage`)."""

    round: Required[Annotated[int, Field(gt=-(10**9), lt=10**9)]]
    models: Required[dict[str, _Model]]
    stage: str
    environment: _Environment
    seconds: _Numbers | float | None


class _Summary(TypedDict, total=False):
    evaluation: dict[str, Any] | None
    baselines: dict[str, float | None] | None


_ROW, _SUMMARY = TypeAdapter(_RecordedRow), TypeAdapter(_Summary)


@dataclass(frozen=True)
class RecordedRun:
    """Recorded run, as read from its folder."""

    folder: Path
    rows: Sequence[Row]
    """Rows of metrics.jsonl that were read, one per round, in order."""
    stages: Mapping[str, Sequence[Row]]
    """Rows of stages.jsonl by stage, one per pass, in order."""
    summary: Row
    """Content of summary.json, which is written at the end; empty before."""
    config_text: str
    """Content of config.yaml, as text."""
    config: Row
    """Content of config.yaml, parsed."""
    notes: Sequence[str]
    """Sentences about missing parts."""

    @property
    def environment(self) -> str:
        """Name of the environment, or "unknown environment"."""
        return self._named("environment", "environment", "name")

    @property
    def options(self) -> Mapping[str, Any]:
        """Options of the environment in the configuration; {} if there are none."""
        named = self.config.get("environment")
        options = named.get("options") if isinstance(named, Mapping) else None
        return options if isinstance(options, Mapping) else {}

    @property
    def mode(self) -> str:
        """Name of the reward mode, such as "cooperative", or "unknown mode"."""
        return self._named("mode", "mode", "name")

    @property
    def strategy(self) -> str:
        """Name of the update strategy, or "unknown strategy"."""
        return self._named("strategy", "updates", "strategy")

    @property
    def seed(self) -> str:
        """Seed of the run as text, or "unknown"."""
        return str(self.config.get("seed", "unknown"))

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Names of the trained models, by appearance in rounds, then in passes of stages."""
        passes = (row for rows in self.stages.values() for row in rows)
        return tuple(dict.fromkeys(name for row in (*self.rows, *passes) for name in row["models"]))

    @property
    def rounds(self) -> list[int]:
        """Number of the round of each row of metrics.jsonl."""
        return [row["round"] for row in self.rows]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Distinct warnings of the run, as texts; empty without any."""
        found = [place.get("warnings") for place in (self.summary, *self.rows)]
        lines = [line for own in found if isinstance(own, list) for line in own]
        return tuple(dict.fromkeys(map(str, lines)))

    @property
    def baselines(self) -> dict[str, float]:
        """Reference policy, such as "uniform", -> mean raw reward per agent and step, if known."""
        found = self.summary.get("baselines") or {}
        known = {name: number_at(found, name) for name in found}
        return {name: value for name, value in known.items() if math.isfinite(value)}

    @property
    def sample_files(self) -> list[Path]:
        """Files of sample episodes, episodes/*.jsonl, in the order of the rounds."""
        return sorted(path for path in self.folder.glob("episodes/*.jsonl") if path.is_file())

    def series(self, *keys: str) -> list[float]:
        """Return the number at a path of keys in the row of each round, NaN where it is missing."""
        return [number_at(row, *keys) for row in self.rows]

    def edges(self, key: str) -> tuple[float, float]:
        """Return means of an environment metric over the first and last tenth of rounds, or NaN."""
        return edges(self.series("environment", key))

    def position(self, value: float) -> float:
        """Return (value - uniform) / (optimum - uniform), NaN if one is unknown or both equal."""
        uniform, optimum = (self.baselines.get(one, math.nan) for one in ("uniform", "optimum"))
        return (value - uniform) / (optimum - uniform) if optimum != uniform else math.nan

    def evaluated(self, when: str, *keys: str) -> float:
        """Return the number at `keys` of the evaluation `when`, such as "before", or NaN."""
        return number_at(self.summary, "evaluation", when, *keys)

    def names(self, *keys: str) -> list[str]:
        """Return the distinct keys of the mappings at a path of keys in rounds, by appearance."""
        found: dict[str, None] = {}
        for row in self.rows:
            place: Any = row
            for key in keys:
                place = place.get(key) if isinstance(place, Mapping) else None
            found |= dict.fromkeys(place) if isinstance(place, Mapping) else {}
        return list(found)

    def total(self, *keys: str) -> float:
        """Return the sum over rounds of the finite numbers at a path of keys, 0 without any."""
        return math.fsum(value for value in self.series(*keys) if math.isfinite(value))

    def _named(self, key: str, section: str, field: str) -> str:
        configured = self.config.get(section)
        if isinstance(configured, Mapping):
            configured = configured.get(field)
        return str(self.summary.get(key) or configured or f"unknown {key}")


def number_at(tree: Any, *keys: str) -> float:
    """Return the number at a path of keys; NaN if missing, no number, or finite beyond ±1e100."""
    for key in keys:
        if not isinstance(tree, Mapping):
            return math.nan
        tree = tree.get(key)
    if not isinstance(tree, (int, float)) or LARGEST < abs(tree) < math.inf:
        return math.nan
    return float(tree)


def mean(values: Sequence[float]) -> float:
    """Return the mean of the finite values, or NaN without any."""
    finite = [value for value in values if math.isfinite(value)]
    return math.fsum(finite) / len(finite) if finite else math.nan


def edges(values: Sequence[float]) -> tuple[float, float]:
    """Return means of the finite values in the first and last tenth (1 or more), NaN if none."""
    tenth = max(1, len(values) // 10)
    return mean(values[:tenth]), mean(values[-tenth:])


def load(folder: Path, opened: Opener = open_plain) -> RecordedRun:
    """Load the run in `folder`, without an incomplete last row.

    `opened` opens a file for reading bytes. Raises RunFolderError if there is no run, or its files
    are damaged or cannot be read. Raises MetricsError if a file is not regular, or another row is
    damaged. Missing parts are listed in `notes`.
    """
    where = folder / "config.yaml"
    try:
        config_text = _content(where, MAX_YAML, opened).decode("utf-8", "replace")
        config = read_yaml(config_text)
        where = folder / "summary.json"
        summary_text = _content(where, MAX_BYTES, opened)
        summary = _checked(_SUMMARY, read_json(summary_text) if summary_text else {}, str(where))
        rows = list(_rows(folder / "metrics.jsonl", "environment", opened))
        stages: dict[str, list[Row]] = {}
        for row in _rows(folder / "stages.jsonl", "stage", opened):
            stages.setdefault(row["stage"], []).append(row)
    except OSError as error:
        raise RunFolderError(f"cannot read {error.filename}: {error.strerror}") from error
    except DocumentError as error:
        raise RunFolderError(f"{where} is damaged: {error}") from error
    if not (config_text or summary_text or rows):
        raise RunFolderError(
            f"no run in {folder}: config.yaml, summary.json and metrics.jsonl are missing; use a "
            "folder that `srl train` wrote"
        )
    config = config if isinstance(config, dict) else {}
    notes = []
    if not config_text:
        notes.append("config.yaml is missing: the settings of the run are unknown.")
    if not summary_text:
        notes.append(
            "summary.json is missing: the run is running or was stopped. Baselines and "
            "evaluations are not shown."
        )
    planned, done = number_at(config, "rounds"), rows[-1]["round"] + 1 if rows else 0
    if done < planned:
        notes.append(f"{done} of {planned:.0f} rounds are complete.")
    return RecordedRun(folder, rows, stages, summary, config_text, config, notes)


def _content(path: Path, most: int, opened: Opener) -> bytes:
    try:
        with opened(path) as file:
            data = file.read(most + 1)
    except FileNotFoundError:
        return b""
    if len(data) > most:
        raise RunFolderError(f"{path} has more than {most} bytes")
    return data


def _rows(path: Path, kind: str, opened: Opener) -> Iterator[Row]:
    with suppress(FileNotFoundError):
        for place, row in enumerate(read_rows(path, opened), start=1):
            if kind not in row:
                raise RunFolderError(f"{path}: line {place}: {kind} is missing")
            yield _checked(_ROW, row, f"{path}: line {place}")


def _checked(adapter: TypeAdapter[Any], value: Any, where: str) -> Any:
    try:
        adapter.validate_python(value, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise RunFolderError(f"{where}: {place}: {first['msg']}") from error
    return value
