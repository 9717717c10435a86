"""A run under way, as reports read one: its numbers in columns, thinned as they grow."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from srl_agents.episode import AgentStep, Episode, from_json, turn_from_json
from srl_envs.errors import DocumentError
from srl_envs.loading.untrusted import read_json
from srl_train.metrics.activity import Span, span
from srl_train.metrics.live.columns import Columns
from srl_train.metrics.run_folder import Run, check_row, number_at

RECENT_ROUNDS = 20
"""Pace and throughput are means over these."""
MOST_SPANS, MOST_PASSES, MOST_WARNINGS, MOST_TURNS = 3000, 200, 30, 200
"""Of activity, of passes of stages and of a game's turns: the newest; of warnings: the first."""


class RoundsSoFar:
    """What the rows of metrics.jsonl come to."""

    def __init__(self) -> None:
        self.columns = Columns()
        self.recent: deque[Mapping[str, Any]] = deque(maxlen=RECENT_ROUNDS)
        self.warnings: dict[str, None] = {}
        self.rounds = 0
        self.episodes = 0.0
        self.failed = 0.0

    def take(self, line: bytes) -> None:
        """Count a row in. Raises RunFolderError for what is no round's."""
        row = _row(line)
        check_row(Path("metrics.jsonl"), self.rounds + 1, row, "environment")
        if self.recent and row["round"] <= self.recent[-1]["round"]:  # written twice
            return
        self.columns.add(row["round"], row)
        self.recent.append(row)
        self.rounds += 1
        self.episodes += _or_zero(number_at(row, "environment", "episodes"))
        self.failed += _or_zero(number_at(row, "environment", "failed_episodes"))
        told = row.get("warnings")
        for warning in told if isinstance(told, list) else ():
            if len(self.warnings) < MOST_WARNINGS:
                self.warnings[str(warning)] = None


class Passes:
    """The newest rows of stages.jsonl."""

    def __init__(self) -> None:
        self.rows: deque[Mapping[str, Any]] = deque(maxlen=MOST_PASSES)

    def take(self, line: bytes) -> None:
        """Take a row. Raises RunFolderError for what is no pass of a stage."""
        row = _row(line)
        check_row(Path("stages.jsonl"), len(self.rows) + 1, row, "stage")
        self.rows.append(row)


class Spans:
    """The newest spans of activity.jsonl."""

    def __init__(self) -> None:
        self.spans: deque[Span] = deque(maxlen=MOST_SPANS)

    def take(self, line: bytes) -> None:
        """Take a row. Raises MetricsError for what is no span."""
        self.spans.append(span("activity.jsonl", len(self.spans) + 1, _row(line)))


class GameSoFar:
    """The game that playing.jsonl records: a record without turns, then turn by turn."""

    def __init__(self) -> None:
        self._start: Episode | None = None
        self._turns: list[tuple[AgentStep, ...]] = []
        self.over = False

    def take(self, line: bytes) -> None:
        """Take a line. Raises EpisodeError for what is none of a record."""
        text = line.decode("utf-8", "replace")
        if self._start is None:
            self._start = from_json(text)
        elif turn := turn_from_json(text):
            self._turns = [*self._turns[1 - MOST_TURNS :], turn]
        else:
            self.over = True

    @property
    def episode(self) -> Episode | None:
        """As far as it goes; None where no game is recorded."""
        return None if self._start is None else replace(self._start, turns=tuple(self._turns))


def _row(line: bytes) -> dict[str, Any]:
    row = read_json(line)
    if not isinstance(row, dict):
        raise DocumentError("not a row")
    return row


@dataclass(frozen=True)
class WatchedRun(Run):
    """A run under way. `rows` holds its last row only; the numbers of all are in columns."""

    so_far: RoundsSoFar = field(default_factory=RoundsSoFar)
    playing: Episode | None = None
    """The game under way, or that was last."""
    playing_is_over: bool = False
    files: tuple[Path, ...] = ()
    """The newest files of sample episodes, in order."""

    @property
    def sample_files(self) -> tuple[Path, ...]:
        """Those of `files`."""
        return self.files

    @property
    def rounds(self) -> list[int]:
        """The last round of each point of the columns."""
        return list(self.so_far.columns.rounds)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What was warned of so far; each once."""
        return tuple(dict.fromkeys((*super().warnings, *self.so_far.warnings)))

    def series(self, *keys: str) -> list[float]:
        """One number per point."""
        return self.so_far.columns.series(*keys)

    def names(self, *keys: str) -> list[str]:
        """The names below these keys, of what was measured."""
        return self.so_far.columns.names(*keys)

    @property
    def planned(self) -> float:
        """Rounds of the whole run; NaN where its configuration does not say."""
        return number_at(self.config, "rounds")

    @property
    def done(self) -> int:
        """Rounds that are over."""
        recent = self.so_far.recent
        return int(recent[-1]["round"]) + 1 if recent else 0

    @property
    def pace(self) -> Pace:
        """Of the last RECENT_ROUNDS rounds."""
        recent = self.so_far.recent
        seconds = games = samples = 0.0
        for row in recent:
            spent = row.get("seconds") or {}
            both = spent.get("rollout", 0) + spent.get("train", 0)
            seconds += max(0.0, both - spent.get("overlap", 0))
            games += _or_zero(number_at(row, "environment", "episodes"))
            samples += sum(_or_zero(number_at(row, "models", m, "samples")) for m in row["models"])
        if not seconds:
            return Pace(math.nan, math.nan, math.nan)
        return Pace(seconds / len(recent), games / seconds, samples / seconds)


@dataclass(frozen=True)
class Pace:
    """How fast a run goes; NaN before its first round."""

    seconds: float
    """Per round."""
    games: float
    """Per second."""
    samples: float
    """Per second, of all models together."""


def _or_zero(value: float) -> float:
    return value if math.isfinite(value) else 0.0
