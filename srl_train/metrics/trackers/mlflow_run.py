"""A run of MLflow."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence

from srl_envs.loading.extras import needed_by
from srl_train.metrics.errors import TrackerError
from srl_train.metrics.trackers.games import COLUMNS, Row
from srl_train.metrics.trackers.tracker import Opening

_PER_CALL = 100
"""Settings that MLflow takes at once; of numbers it takes ten times as many."""


class MlflowRun:
    """Metrics, parameters and tables of games, without MLflow's active run."""

    hides_from: int | None = None

    def __init__(self, opening: Opening) -> None:
        with needed_by("logging.trackers: mlflow", TrackerError):
            from mlflow import MlflowClient
            from mlflow.entities import Metric, Param
        self._metric = Metric
        self._client = MlflowClient(opening.config.mlflow.tracking_uri)
        if opening.known_as is not None:
            self.known_as: str = self._client.get_run(opening.known_as).info.run_id
            self._client.update_run(self.known_as, status="RUNNING")
            return
        experiment = self._client.get_experiment_by_name(opening.config.project)
        number = (
            self._client.create_experiment(opening.config.project)
            if experiment is None
            else experiment.experiment_id
        )
        self.known_as = self._client.create_run(number, run_name=opening.name).info.run_id
        params = [Param(name, str(value)) for name, value in opening.settings.items()]
        for start in range(0, len(params), _PER_CALL):
            self._client.log_batch(self.known_as, params=params[start : start + _PER_CALL])

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Log metrics."""
        now = int(time.time() * 1000)
        metrics = [self._metric(name, value, now, step) for name, value in numbers.items()]
        for start in range(0, len(metrics), 10 * _PER_CALL):
            self._client.log_batch(self.known_as, metrics[start : start + 10 * _PER_CALL])

    def table(self, rows: Sequence[Row], step: int) -> None:
        """Log a table as an artifact."""
        columns = {name: [row[place] for row in rows] for place, name in enumerate(COLUMNS)}
        self._client.log_table(self.known_as, columns, f"episodes/step_{step:08d}.json")

    def close(self, finished: bool) -> None:
        """End the run."""
        self._client.set_terminated(self.known_as, "FINISHED" if finished else "KILLED")
