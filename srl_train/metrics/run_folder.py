"""Reader of a run's folder: rows, stages, summary, configuration and sample episodes.

The folder of a running or killed run is read as far as it is complete, and `Run.notes` lists the
missing parts. Other damage is a RunFolderError.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from srl_agents.episode import Episode, read_jsonl
from srl_agents.errors import EpisodeError
from srl_envs.errors import DocumentError
from srl_envs.loading import MAX_YAML, read_yaml
from srl_envs.untrusted import read_bytes, read_json
from srl_train.config.stages import STAGES
from srl_train.metrics.errors import RunFolderError
from srl_train.metrics.sinks import read_metrics

LARGEST = 1e100
"""Largest measured number; sums of its squares are finite."""
MOST_ROUNDS = 10**9


@dataclass(frozen=True)
class Sample:
    """One file of sample episodes."""

    path: Path
    episodes: tuple[Episode, ...]


def sample_label(path: Path) -> str:
    """Return 'round 12' for round_00012.jsonl."""
    name, _, number = path.stem.rpartition("_")
    return f"{name} {int(number)}" if name and number.isdecimal() else path.stem


@dataclass(frozen=True)
class RecordedRun:
    """Records of a run."""

    folder: Path
    rows: tuple[Mapping[str, Any], ...]
    """Rows of metrics.jsonl, one per round, in order."""
    stages: Mapping[str, tuple[Mapping[str, Any], ...]]
    """Rows of stages.jsonl by stage, one per pass, in order."""
    summary: Mapping[str, Any]
    """summary.json; empty if it does not exist yet."""
    config_text: str
    """Text of config.yaml."""
    config: Mapping[str, Any]
    """Content of config.yaml."""
    samples: tuple[Sample, ...]
    """First and last file of sample episodes, or the only one."""
    notes: tuple[str, ...]
    """Missing parts, one sentence each."""

    @property
    def environment(self) -> str:
        """Name of the environment."""
        named = self.config.get("environment")
        from_config = named.get("name") if isinstance(named, Mapping) else named
        last = self.rows[-1]["environment"].get("name") if self.rows else None
        return str(self.summary.get("environment") or last or from_config or "unknown environment")

    @property
    def mode(self) -> str:
        """Name of the mode."""
        return self._recorded("mode", "mode", "name")

    @property
    def strategy(self) -> str:
        """Name of the update strategy."""
        return self._recorded("strategy", "updates", "strategy")

    @property
    def seed(self) -> str:
        """Seed of the run, as text."""
        return str(self.config.get("seed", "unknown"))

    @cached_property
    def models(self) -> tuple[str, ...]:
        """Trained models in the order of the rounds' rows, then of the stages'."""
        passes = (row for rows in self.stages.values() for row in rows)
        named = (name for row in (*self.rows, *passes) for name in row["models"])
        return tuple(dict.fromkeys((*self.names("models"), *named)))

    @property
    def rounds(self) -> list[int]:
        """Number of each row's round."""
        return [row["round"] for row in self.rows]

    @property
    def warnings(self) -> tuple[str, ...]:
        """Distinct warnings of the run."""
        found = [place.get("warnings") for place in (self.summary, *self.rows)]
        lines = [line for own in found if isinstance(own, list) for line in own]
        return tuple(dict.fromkeys(map(str, lines)))

    @property
    def baselines(self) -> dict[str, float]:
        """Mean raw reward per agent and step of known policies, by name."""
        found = self.summary.get("baselines") or {}
        known = {name: number_at(found, name) for name in found}
        return {name: value for name, value in known.items() if math.isfinite(value)}

    def series(self, *keys: str) -> list[float]:
        """Return the number at a path of keys in each row, or NaN."""
        return [number_at(row, *keys) for row in self.rows]

    @property
    def sample_files(self) -> tuple[Path, ...]:
        """Files of sample episodes, in order."""
        found = (self.folder / "episodes").glob("*.jsonl")
        return tuple(sorted(path for path in found if path.is_file()))

    def names(self, *keys: str) -> list[str]:
        """Return the distinct keys of the mappings at a path in each row, in order."""
        found: dict[str, None] = {}
        for row in self.rows:
            place: Any = row
            for key in keys:
                place = place.get(key) if isinstance(place, Mapping) else None
            found |= dict.fromkeys(place) if isinstance(place, Mapping) else {}
        return list(found)

    def total(self, *keys: str) -> float:
        """Return the sum of a series, without missing numbers."""
        return math.fsum(value for value in self.series(*keys) if math.isfinite(value))

    def _recorded(self, key: str, section: str, field: str) -> str:
        configured = self.config.get(section)
        from_config = configured.get(field) if isinstance(configured, Mapping) else None
        last = self.rows[-1].get(key) if self.rows else None
        return str(self.summary.get(key) or last or from_config or f"unknown {key}")


def number_at(tree: Any, *keys: str) -> float:
    """Return the number at a path of keys, or NaN if it is missing or beyond LARGEST."""
    for key in keys:
        if not isinstance(tree, Mapping):
            return math.nan
        tree = tree.get(key)
    if not isinstance(tree, (int, float)) or LARGEST < abs(tree) < math.inf:
        return math.nan
    return float(tree)


def load(folder: Path) -> RecordedRun:
    """Load the run in `folder`, without incomplete parts.

    Raises RunFolderError if there is no run, or its records are damaged or cannot be read.
    """
    try:
        return _loaded(folder)
    except OSError as error:
        raise RunFolderError(f"cannot read {error.filename}: {error.strerror}") from error


def _loaded(folder: Path) -> RecordedRun:
    if not folder.is_dir():
        raise RunFolderError(f"no run at {folder}: give a folder that `srl train` wrote")
    notes: list[str] = []
    metrics, summary, config = (
        folder / name for name in ("metrics.jsonl", "summary.json", "config.yaml")
    )
    if not (metrics.exists() or summary.exists() or config.exists()):
        raise RunFolderError(
            f"{folder} holds no run: neither metrics.jsonl nor summary.json nor config.yaml "
            "is in it; give a folder that `srl train` wrote"
        )
    config_text, tree = _config(config, notes)
    planned = number_at(tree, "rounds")
    rows = _rows(metrics, notes, planned)
    if rows and len(rows) < planned:
        notes.append(f"{len(rows)} of {planned:.0f} rounds have been played.")
    return RecordedRun(
        folder=folder,
        rows=rows,
        stages=_stages(folder / "stages.jsonl", tree, notes),
        summary=_summary(summary, notes),
        config_text=config_text,
        config=tree,
        samples=_samples(folder / "episodes", notes, expected=bool(rows)),
        notes=tuple(notes),
    )


def _rows(path: Path, notes: list[str], planned: float) -> tuple[Mapping[str, Any], ...]:
    if not path.exists():
        if planned:
            notes.append("metrics.jsonl is not there yet: no round has ended.")
        return ()
    found = read_metrics(path)
    content = path.read_bytes()
    if content and not content.endswith(b"\n"):
        notes.append("The last line of metrics.jsonl was being written; it may be left out here.")
    if not found and planned:
        notes.append("metrics.jsonl is empty: no round has ended.")
    by_round: dict[int, Mapping[str, Any]] = {}
    for place, row in enumerate(found, start=1):
        check_row(path, place, row, "environment")
        by_round[row["round"]] = row
    if len(by_round) < len(found):
        notes.append("Some rounds were written twice; the later row of each is shown.")
    rows = [by_round[number] for number in sorted(by_round)]
    if rows and len(rows) != rows[-1]["round"] + 1:
        notes.append(f"{len(rows)} rounds are recorded, the last is round {rows[-1]['round']}.")
    return tuple(rows)


def _stages(
    path: Path, config: Mapping[str, Any], notes: list[str]
) -> dict[str, tuple[Mapping[str, Any], ...]]:
    by_pass: dict[int, Mapping[str, Any]] = {}
    for place, row in enumerate(read_metrics(path) if path.exists() else (), start=1):
        check_row(path, place, row, "stage")
        by_pass[row["round"]] = row
    stages = by_stage(by_pass[number] for number in sorted(by_pass))
    for name, rows in stages.items():
        planned = number_at(config, name, "epochs")
        if len(rows) < planned:
            notes.append(f"{len(rows)} of {planned:.0f} passes of {name} are done.")
    return stages


def by_stage(rows: Iterable[Mapping[str, Any]]) -> dict[str, tuple[Mapping[str, Any], ...]]:
    """Group rows by stage."""
    stages: dict[str, tuple[Mapping[str, Any], ...]] = {}
    for row in rows:
        stages[row["stage"]] = (*stages.get(row["stage"], ()), row)
    return stages


def check_row(path: Path, place: int, row: Mapping[str, Any], kind: str) -> None:
    """Raise RunFolderError unless the row is a round's or, of `kind` "stage", a stage's pass."""
    where = f"{path}: line {place}"
    of_kind = row.get(kind) in STAGES if kind == "stage" else isinstance(row.get(kind), Mapping)
    number, models = row.get("round"), row.get("models")
    numbered = isinstance(number, int) and abs(number) < MOST_ROUNDS
    if not (of_kind and numbered and isinstance(models, Mapping)):
        called = "a pass of a stage" if kind == "stage" else "a round"
        raise RunFolderError(f"{where} is not {called}: it needs round, {kind} and models")
    for model, own in models.items():
        if not isinstance(own, Mapping):
            raise RunFolderError(f"{where} holds {own!r} for {model}, no mapping")
        seats = own.get("seats") or []
        if not isinstance(seats, list) or not all(isinstance(one, str) for one in seats):
            raise RunFolderError(f"{where}: seats of {model} is no list of text")
    if not isinstance(row.get("by_environment", {}), Mapping | None):
        raise RunFolderError(f"{where}: by_environment is {row['by_environment']!r:.80}")
    if kind == "environment":
        numbers = {"winners": row[kind].get("winners"), "seconds": row.get("seconds")}
        for name, found in numbers.items():
            if not (found is None or (isinstance(found, Mapping) and _all_numbers(found))):
                raise RunFolderError(f"{where}: {name} is {found!r:.80}, no mapping to numbers")


def _all_numbers(value: Mapping[str, Any]) -> bool:
    return all(isinstance(one, int | float) and abs(one) < LARGEST for one in value.values())


def _summary(path: Path, notes: list[str]) -> Mapping[str, Any]:
    if not path.exists():
        notes.append(
            "summary.json is not there: the run is running or was stopped. "
            "Baselines and evaluations are missing here."
        )
        return {}
    try:
        return summary_of(path, read_bytes(path))
    except DocumentError as error:
        raise RunFolderError(f"{path} cannot be read: {error}") from error


def summary_of(path: Path, content: bytes) -> Mapping[str, Any]:
    """Parse summary.json. Raises RunFolderError if it is damaged."""
    try:
        found = read_json(content)
    except DocumentError as error:
        raise RunFolderError(f"{path} is not JSON ({error}); remove it or run again") from error
    if not isinstance(found, dict):
        raise RunFolderError(f"{path} holds a {type(found).__name__}, not a mapping")
    evaluation = found.get("evaluation") or {}
    if not isinstance(evaluation, dict):
        raise RunFolderError(f"{path}: evaluation is {evaluation!r:.80}, no mapping")
    baselines = found.get("baselines") or {}
    if not isinstance(baselines, dict) or not all(
        value is None or isinstance(value, int | float) for value in baselines.values()
    ):
        raise RunFolderError(
            f"{path}: baselines is {baselines!r}: it needs a mapping of names to numbers"
        )
    return found


def _config(path: Path, notes: list[str]) -> tuple[str, Mapping[str, Any]]:
    if not path.exists():
        notes.append("config.yaml is not there: the settings of the run are unknown.")
        return "", {}
    try:
        return config_of(path, read_bytes(path, MAX_YAML))
    except DocumentError as error:
        raise RunFolderError(f"{path} cannot be read: {error}") from error


def config_of(path: Path, content: bytes) -> tuple[str, Mapping[str, Any]]:
    """Return the text and the content of config.yaml. Raises RunFolderError if it is damaged."""
    text = content.decode("utf-8", "replace")
    try:
        tree = read_yaml(text)
    except DocumentError as error:
        raise RunFolderError(f"{path} is not YAML ({error}); restore it") from error
    return text, tree if isinstance(tree, dict) else {}


def _samples(folder: Path, notes: list[str], *, expected: bool) -> tuple[Sample, ...]:
    files = sorted(path for path in folder.glob("*.jsonl") if path.is_file())
    if expected and not files:
        notes.append("There are no sample episodes.")
    samples = []
    for path in dict.fromkeys(files[:1] + files[-1:]):
        try:
            samples.append(Sample(path, tuple(read_jsonl(path))))
        except EpisodeError as error:
            notes.append(f"{path.name} cannot be read: {error}")
    return tuple(samples)
