"""Documented monitor of all trainers of this process, and the page that draws its file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from srl_extensions.pages.document import Document, Figure, Line, PageSection, Panel, write_page
from srl_extensions.pages.run_folder import number_at
from srl_train.config.section import Section
from srl_train.metrics import JsonlSink, read_metrics


class MonitoringConfig(Section):
    """Documented settings of a monitor.

    Raises ConfigError, a ValueError, for a value not allowed.
    """

    enable_file_logging: bool = True
    """Write rows to the file."""
    log_file_path: Annotated[str, Field(min_length=1)] = "./logs/training.json"
    """File to which a line of JSON per row is appended; missing folders are created."""


class UnifiedMonitor:
    """Recorder of all MultiModelTrainers with `enable_monitoring` in this process.

    From `start` to `stop`, it records rows as in RUN/metrics.jsonl, with the key `run` added.

    Args:
        config: File of the monitor; None selects the default MonitoringConfig.
    """

    def __init__(self, config: MonitoringConfig | None = None) -> None:
        self.config = config or MonitoringConfig()
        self.latest_metrics: dict[str, Any] = {}
        """Newest row of a round or stage; empty before the first one."""
        self._file: JsonlSink | None = None

    def start(self) -> None:
        """Start to record, and open the file if enabled; no effect if started.

        Raises:
            MetricsError: If a line of the file, except the last, is damaged.
        """
        if self in _started:
            return
        if self.config.enable_file_logging:
            self._file = JsonlSink(self.config.log_file_path)
        _started.append(self)

    def stop(self) -> None:
        """Stop recording and close the file; no effect unless started."""
        if self in _started:
            _started.remove(self)
            if self._file is not None:
                self._file.close()
            self._file = None

    def record(self, line: Mapping[str, Any]) -> None:
        """Replace `latest_metrics` by a copy of a row, and append the row to the file, if open.

        Args:
            line: Metrics of a round or stage, with the key `run`.
        """
        self.latest_metrics = dict(line)
        if self._file is not None:
            self._file.write(line)


_started: list[UnifiedMonitor] = []


class StartedMonitors:
    """Sink that passes a run's metrics to all started monitors.

    Args:
        run: Folder of the run.
    """

    def __init__(self, run: str) -> None:
        self._run = run

    def write(self, row: Mapping[str, Any]) -> None:
        """Pass a row, with the key `run` added, to all started monitors."""
        for monitor in tuple(_started):
            monitor.record({**row, "run": self._run})

    def close(self) -> None:
        """Do nothing, because monitors record several runs."""


create_unified_monitor = UnifiedMonitor


class GraphVisualizer:
    """Page with the reward curves of all runs in a monitor's file.

    Args:
        log_file: Path of the file, which only `draw` reads.
    """

    def __init__(self, log_file: str) -> None:
        self.log_file = Path(log_file)

    def draw(self) -> Path:
        """Write or replace an HTML page next to the file (same name, .html), and return its path.

        Raises FileNotFoundError or MetricsError if the file is missing or damaged, and
        RunFolderError if the page cannot be written.
        """
        rows = read_metrics(self.log_file)
        runs = dict.fromkeys(str(row.get("run", "")) for row in rows)
        sections = [
            PageSection(f"Run {run[-40:]}", [Figure(_reward_chart(rows, run), "")]) for run in runs
        ]
        page = Document("Monitored", str(self.log_file), [], sections)
        return write_page(page, self.log_file.with_suffix(".html"))


create_graph_visualizer = GraphVisualizer


def _reward_chart(rows: Sequence[Mapping[str, Any]], run: str) -> list[Panel]:
    rounds = [row for row in rows if str(row.get("run", "")) == run and "environment" in row]
    models = [row["models"] for row in rounds if isinstance(row.get("models"), Mapping)]
    numbers = [number_at(row, "round") for row in rounds]
    lines = [
        Line(name, numbers, [number_at(row, "models", name, "raw_reward") for row in rounds])
        for name in sorted({str(name) for own in models for name in own})
    ]
    return [Panel("Raw reward", lines)] if lines else []
