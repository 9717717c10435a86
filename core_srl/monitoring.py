"""Documented monitor of all trainers of this process, and the page that draws its file."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from srl_extensions.pages.document import Document, Figure, Line, PageSection, Panel, write_page
from srl_extensions.pages.run_folder import number_at
from srl_train.config.section import Section
from srl_train.metrics import JsonlSink, read_metrics

STARTED = "monitor_started"  # Key of the first line of a session, with the time in UTC.


class MonitoringConfig(Section):
    """Documented settings of a monitor. Raises ConfigError, a ValueError."""

    enable_file_logging: bool = True
    """Write rows to the file."""
    log_file_path: Annotated[str, Field(min_length=1)] = "./logs/training.json"
    """File to which a line of JSON per row is appended; missing folders are created."""


class UnifiedMonitor:
    """Recorder of every MultiModelTrainer with `enable_monitoring`, from `start` to `stop`.

    The lines of its file are rounds and stages as in RUN/metrics.jsonl with the key `run`, and
    evaluations with `evaluation` and `measured`.
    """

    def __init__(self, config: MonitoringConfig | None = None) -> None:
        self.config = config or MonitoringConfig()
        self.latest_metrics: dict[str, Any] = {}
        """Newest row of a round or stage; empty before the first one."""
        self._file: JsonlSink | None = None
        self._lock = threading.Lock()

    def start(self) -> None:
        """Record trainers from now on; a second call has no effect.

        Raises MetricsError for a file with other contents, OSError if it cannot be written.
        """
        if self in _started:
            return
        if self.config.enable_file_logging:
            self._file = JsonlSink(self.config.log_file_path)
            self._file.write({STARTED: datetime.now(UTC).isoformat(timespec="seconds")})
        _started.append(self)

    def stop(self) -> None:
        """Stop recording; a second call has no effect."""
        if self in _started:
            _started.remove(self)
            with self._lock:
                if self._file is not None:
                    self._file.close()
                self._file = None

    def record(self, line: Mapping[str, Any]) -> None:
        """Write a line to the file, if any; store it in `latest_metrics` unless an evaluation."""
        with self._lock:
            if "evaluation" not in line:
                self.latest_metrics = dict(line)
            if self._file is not None:
                self._file.write(line)


_started: list[UnifiedMonitor] = []


class StartedMonitors:
    """Sink that passes the records of a run to all monitors that are running."""

    def __init__(self, run: str) -> None:
        self._run = run

    def write(self, row: Mapping[str, Any]) -> None:
        """Pass a row, with the key `run`, to all running monitors."""
        for monitor in tuple(_started):
            monitor.record({**row, "run": self._run})

    def write_evaluation(self, when: str, measured: Mapping[str, Any]) -> None:
        """Pass an evaluation to all running monitors."""
        self.write({"evaluation": when, "measured": measured})

    def close(self) -> None:
        """Do nothing: monitors outlive a run."""


def create_unified_monitor(config: MonitoringConfig | None = None) -> UnifiedMonitor:
    """Create a monitor, to be started by `start`."""
    return UnifiedMonitor(config)


class GraphVisualizer:
    """Page with the reward curves of the newest session in a monitor's `log_file`."""

    def __init__(self, log_file: str) -> None:
        self.log_file = Path(log_file)

    def draw(self) -> Path:
        """Write the page next to the file and return its path. Raises MetricsError."""
        lines = read_metrics(self.log_file)
        begins = [place for place, line in enumerate(lines) if STARTED in line]
        rows = lines[begins[-1] + 1 :] if begins else lines
        runs = dict.fromkeys(str(row.get("run", "")) for row in rows)
        sections = [
            PageSection(f"Run {run[-40:]}", [Figure(_rewards(rows, run), "")]) for run in runs
        ]
        page = Document("Monitored", str(self.log_file), [], sections)
        return write_page(page, self.log_file.with_suffix(".html"))


def create_graph_visualizer(log_file: str) -> GraphVisualizer:
    """Create a visualizer of a monitor's file."""
    return GraphVisualizer(log_file)


def _rewards(rows: Sequence[Mapping[str, Any]], run: str) -> list[Panel]:
    """Return a chart of each model's raw reward in a run; an empty list without a round."""
    rounds = [row for row in rows if str(row.get("run", "")) == run and "environment" in row]
    models = [row["models"] for row in rounds if isinstance(row.get("models"), Mapping)]
    numbers = [number_at(row, "round") for row in rounds]
    lines = [
        Line(name, numbers, [number_at(row, "models", name, "raw_reward") for row in rounds])
        for name in sorted({str(name) for own in models for name in own})
    ]
    return [Panel("Raw reward", lines)] if lines else []
