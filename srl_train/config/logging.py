"""Logging of a run: records, sample episodes and trackers."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Annotated, Any, ClassVar, Literal, get_args
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from srl_train.config.bounds import MOST_EPISODES
from srl_train.config.section import Section
from srl_train.errors import ConfigError

TrackerName = Literal["tensorboard", "trackio", "wandb", "mlflow"]


_RUN_NAME = re.compile(r"\w[\w .-]{0,99}")


def _named(*trackers: str) -> tuple[str, Callable[[Any], object]]:
    return f"trackers names {' or '.join(trackers)}", lambda own: {*trackers} & {*own.trackers}


class LoggingConfig(Section):
    """Records, sample episodes and trackers of a run."""

    READ_WHERE: ClassVar = {
        "directory": _named("tensorboard", "wandb"),
        "project": _named("wandb", "mlflow", "trackio"),
        "run_name": _named(*get_args(TrackerName)),
    }

    every: Annotated[int, Field(ge=1)] = 1
    """Rounds between two progress lines if stderr is no terminal."""
    episodes_every: Annotated[int, Field(ge=1)] = 10
    """Rounds between two files of sample episodes, in addition to the first and last round."""
    episodes: Annotated[int, Field(ge=0, le=MOST_EPISODES)] = 2
    """Sample episodes per file."""
    evaluation_episodes: Annotated[int, Field(ge=0, le=MOST_EPISODES)] = 64
    """Episodes of the evaluations before and after training; 0 for none."""
    trackers: Annotated[tuple[TrackerName, ...], Field(strict=False)] = ()
    """Trackers that receive the metrics: `tensorboard`, `trackio`, `wandb`,
    `mlflow` (docs/training/trackers.md)."""
    project: Annotated[str, Field(min_length=1)] = "core-srl"
    """Name of the project (wandb, trackio) or experiment (mlflow)."""
    run_name: str | None = None
    """Name of the run in trackers; null is the name of its folder."""
    directory: str | None = None
    """Folder of TensorBoard's (DIRECTORY/RUN_NAME) and W&B's files; null is the run's folder."""
    tracker_options: Mapping[TrackerName, Mapping[str, Any]] = {}
    """Further arguments of a tracker's init function, such as `wandb: {group: seeds}`,
    `mlflow: {tracking_uri: ...}` or `trackio: {space_id: ...}`."""

    @field_validator("run_name")
    @classmethod
    def check_run_name(cls, name: str | None) -> str | None:
        """Return the name if it is a valid folder name."""
        if name is not None and not _RUN_NAME.fullmatch(name):
            raise ValueError(
                "at most 100 letters, digits, spaces, '.', '_' and '-', a letter or digit first"
            )
        return name

    @model_validator(mode="after")
    def _check_trackers(self) -> LoggingConfig:
        if len(set(self.trackers)) < len(self.trackers):
            raise ConfigError(f"trackers: got {', '.join(self.trackers)}: name each once")
        for name, options in self.tracker_options.items():
            if name not in self.trackers:
                raise ConfigError(f"tracker_options.{name}: read only if trackers names {name}")
            if "@" in urlsplit(str(options.get("tracking_uri", ""))).netloc:
                raise ConfigError(
                    f"tracker_options.{name}.tracking_uri: got an address with a user or a "
                    "password, which config.yaml would contain: set MLFLOW_TRACKING_URI, or "
                    "MLFLOW_TRACKING_USERNAME and _PASSWORD"
                )
        return self
