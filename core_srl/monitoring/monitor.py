"""Monitor of all trainers of this process: their rows, evaluations and interactions in one file."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import Any, Self

from core_srl.arguments import path, whole
from srl_agents.episode import Episode
from srl_agents.errors import EpisodeError
from srl_agents.evaluation.interactions import Interactions, Observed, graphs, observe
from srl_train.errors import ConfigError
from srl_train.metrics import JsonlSink

STARTED = "monitor_started"
"""The key of the line that a monitor begins with: the time, UTC."""


@dataclass(frozen=True)
class MonitoringConfig:
    """The documented settings of a monitor. Raises ConfigError, a ValueError."""

    enable_file_logging: bool = True
    """Whether what is heard is written down."""
    log_file_path: str = "./logs/training.json"
    """Where: a line of JSON per row, added to what is there; folders are made."""
    history_window_size: int = 1000
    """Newest rows that are kept in memory."""
    interaction_games: int = 2
    """Games of a round at most that are played again to measure who helped, hurt, traded with and
    listened to whom; 0 for none."""
    interaction_rounds: int = 10
    """Rounds that each graph of that is measured from."""

    def __post_init__(self) -> None:
        if not isinstance(self.enable_file_logging, bool):
            raise ConfigError(
                f"enable_file_logging is {self.enable_file_logging!r}: give true or false"
            )
        path("log_file_path", self.log_file_path)
        whole("history_window_size", self.history_window_size, 1)
        whole("interaction_games", self.interaction_games, 0)
        whole("interaction_rounds", self.interaction_rounds, 1)


@dataclass
class _Gathered:
    """Games of one run that no graph has been made of yet."""

    rounds: list[int] = field(default_factory=list)
    games: list[Observed] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)


class UnifiedMonitor:
    """Hears every MultiModelTrainer with `enable_monitoring` from `start` to `stop`.

    Whenever it is started, also while they train. It is a srl_train.metrics.Watcher too, so that
    Trainer(sinks=(monitor,)) hands it the rows of any other run. Lines of its file: rounds and
    passes as RUN/metrics.jsonl has them, with `run`; `evaluation` and what was `measured`;
    `interactions` of a stretch of `rounds`, an edge each. May be used from several threads.
    """

    def __init__(self, config: MonitoringConfig | None = None) -> None:
        if config is not None and not isinstance(config, MonitoringConfig):
            raise ConfigError(f"config is a {type(config).__name__}: give a MonitoringConfig")
        self.config = config or MonitoringConfig()
        self.history: deque[dict[str, Any]] = deque(maxlen=self.config.history_window_size)
        """The newest rows of rounds and passes."""
        self.latest_interactions: dict[str, Interactions] = {}
        """Run -> its newest graphs."""
        self._gathered: dict[str, _Gathered] = {}
        self._file: JsonlSink | None = None
        self._lock = threading.RLock()

    @property
    def running(self) -> bool:
        """Whether it hears trainers."""
        return self in _started

    @property
    def latest_metrics(self) -> dict[str, Any]:
        """The newest row; empty before the first."""
        return self.history[-1] if self.history else {}

    def start(self) -> None:
        """Hear trainers from now on. Calling it twice does no harm.

        Raises MetricsError where the file holds something else, OSError where it cannot be
        written.
        """
        with self._lock:
            if self.running:
                return
            if self.config.enable_file_logging:
                self._file = JsonlSink(self.config.log_file_path)
                self._file.write({STARTED: datetime.now(UTC).isoformat(timespec="seconds")})
            _started.append(self)

    def stop(self) -> None:
        """Hear nothing more; graphs of the rounds so far are written. Calling it twice does no
        harm."""
        with self._lock:
            if not self.running:
                return
            _started.remove(self)
            self.close()
            if self._file is not None:
                self._file.close()
                self._file = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.stop()

    # srl_train.metrics.Watcher; nothing is taken while it is not started.

    def write(self, row: Mapping[str, Any], run: str = "") -> None:
        """Take a row of a run."""
        with self._lock:
            if self.running:
                self.history.append({**row, "run": run})
                self._write(self.history[-1])

    def write_episodes(self, round_number: int, episodes: Sequence[Episode], run: str = "") -> None:
        """Take the games of a round."""
        with self._lock:
            if not (self.running and self.config.interaction_games):
                return
            own = self._gathered.setdefault(run, _Gathered())
            own.rounds.append(round_number)
            played = [episode for episode in episodes if episode.failure is None]
            for episode in played[: self.config.interaction_games]:
                try:
                    own.games.append(observe(episode))
                except EpisodeError as error:
                    own.left_out.append(str(error))
            if len(own.rounds) >= self.config.interaction_rounds:
                self._draw(run)

    def write_evaluation(self, when: str, measured: Mapping[str, Any], run: str = "") -> None:
        """Take an evaluation."""
        with self._lock:
            if self.running:
                self._write({"run": run, "evaluation": when, "measured": measured})

    def close(self, run: str | None = None) -> None:
        """Write the graphs of what has been gathered, of one run or of all; the monitor goes on."""
        with self._lock:
            for name in list(self._gathered):
                if run in (None, name):
                    self._draw(name)

    def _draw(self, run: str) -> None:
        own = self._gathered.pop(run)
        found = graphs(own.games)
        self.latest_interactions[run] = found
        edges = [
            {"measure": graph.measure.name, **asdict(edge)}
            for graph in found.graphs
            for edge in graph.edges
        ]
        left_out = list(dict.fromkeys([*own.left_out, *found.not_replayed]))
        rounds = [min(own.rounds), max(own.rounds)]
        self._write({"run": run, "rounds": rounds, "games": found.games, "interactions": edges,
                     "not_played_again": left_out})  # fmt: skip

    def _write(self, line: Mapping[str, Any]) -> None:
        if self._file is not None:
            self._file.write(line)


_started: list[UnifiedMonitor] = []


class StartedMonitors:
    """A Watcher that hands what a run tells to all monitors that are started just then."""

    def __init__(self, run: str) -> None:
        self._run = run

    def write(self, row: Mapping[str, Any]) -> None:
        """Hand the row on."""
        for monitor in tuple(_started):
            monitor.write(row, self._run)

    def write_episodes(self, round_number: int, episodes: Sequence[Episode]) -> None:
        """Hand the games on."""
        for monitor in tuple(_started):
            monitor.write_episodes(round_number, episodes, self._run)

    def write_evaluation(self, when: str, measured: Mapping[str, Any]) -> None:
        """Hand the evaluation on."""
        for monitor in tuple(_started):
            monitor.write_evaluation(when, measured, self._run)

    def close(self) -> None:
        """The run's rounds are over, or rest: graphs of those so far are written."""
        for monitor in tuple(_started):
            monitor.close(self._run)


def create_unified_monitor(config: MonitoringConfig | None = None) -> UnifiedMonitor:
    """A monitor that is not started yet."""
    return UnifiedMonitor(config)
