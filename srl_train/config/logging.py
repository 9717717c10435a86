"""Section `logging` of a run: progress lines, sample episodes, evaluations and trackers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, model_validator

from srl_train.config.bounds import MOST_EPISODES
from srl_train.config.section import LocalPath, Section
from srl_train.errors import ConfigError

TrackerName = Literal["tensorboard", "trackio", "wandb", "mlflow"]


class LoggingConfig(Section):
    """Progress lines, sample episodes, evaluations and trackers of a run."""

    every: Annotated[int, Field(ge=1)] = 1
    """Number of rounds per progress line."""
    episodes_every: Annotated[int, Field(ge=1)] = 10
    """Number of rounds per file of sample episodes. The last round always has a file."""
    episodes: Annotated[int, Field(ge=0, le=MOST_EPISODES)] = 2
    """Number of sample episodes per file. 0 writes none."""
    evaluation_episodes: Annotated[int, Field(ge=0, le=MOST_EPISODES)] = 64
    """Number of episodes per evaluation, before and after training, and after stages. 0: none."""
    trackers: Annotated[tuple[TrackerName, ...], Field(strict=False)] = ()
    """Experiment trackers that receive the metrics: a list of `tensorboard`, `trackio`, `wandb` and
    `mlflow` (docs/training/trackers.md)."""
    project: Annotated[str, Field(min_length=1)] = "core-srl"
    """Name of the project in wandb and trackio, and of the experiment in mlflow."""
    run_name: Annotated[str, Field(pattern=r"^\w[\w .-]*$", max_length=100)] | None = None
    """Name of the run in trackers. null uses the name of the run's folder."""
    directory: LocalPath | None = None
    """Parent folder of the files of TensorBoard and W&B. null uses the run's folder."""
    tracker_options: Mapping[TrackerName, Mapping[str, Any]] = {}
    """Keyword arguments of each tracker's init function, by tracker, such as
    `wandb: {group: seeds}`."""

    @model_validator(mode="after")
    def _check_trackers(self) -> LoggingConfig:
        if len(set(self.trackers)) < len(self.trackers):
            raise ConfigError(f"trackers: must be different, got {', '.join(self.trackers)}")
        for name, options in self.tracker_options.items():
            if name not in self.trackers:
                raise ConfigError(f"tracker_options.{name}: {name} must be in trackers")
            if "@" in urlsplit(str(options.get("tracking_uri", ""))).netloc:
                raise ConfigError(
                    f"tracker_options.{name}.tracking_uri: must not contain a user or password, "
                    "which config.yaml would record; set MLFLOW_TRACKING_USERNAME and "
                    "MLFLOW_TRACKING_PASSWORD"
                )
        return self
