"""Logging of a run: what it writes about itself, and the trackers that are told."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Annotated, Any, ClassVar, Literal, get_args
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from srl_train.config.bounds import MOST_EPISODES
from srl_train.config.section import Names, Section
from srl_train.errors import ConfigError

TrackerName = Literal["tensorboard", "trackio", "wandb", "mlflow"]


class WandbConfig(Section):
    """What Weights & Biases asks for beside the names; keys and servers stay in its environment
    variables."""

    entity: str | None = None
    """The user or team; null is your default."""
    group: str | None = None
    """The group that the run is shown in, such as one of several seeds."""
    tags: Names = ()
    """Labels of the run."""
    mode: Literal["online", "offline"] | None = None
    """`offline` writes into RUN/wandb for `wandb sync`; null leaves it to WANDB_MODE."""


class MlflowConfig(Section):
    """Where MLflow's runs are."""

    tracking_uri: str | None = None
    """A server (http://host:5000), a database (sqlite:///mlflow.db) or a folder; null leaves it to
    MLFLOW_TRACKING_URI. Users and passwords stay in MLFLOW_TRACKING_USERNAME and _PASSWORD."""

    @model_validator(mode="after")
    def _refuse_passwords(self) -> MlflowConfig:
        if self.tracking_uri is not None and "@" in urlsplit(self.tracking_uri).netloc:
            raise ConfigError(
                "tracking_uri: got an address with a user or a password, which config.yaml would "
                "keep: set MLFLOW_TRACKING_URI, or MLFLOW_TRACKING_USERNAME and _PASSWORD"
            )
        return self


class TrackioConfig(Section):
    """Where Trackio's runs are."""

    space_id: str | None = None
    """A Space of the Hugging Face hub; null keeps them on this machine."""


_RUN_NAME = re.compile(r"\w[\w .-]{0,99}")


def _named(*trackers: str) -> tuple[str, Callable[[Any], object]]:
    return f"trackers names {' or '.join(trackers)}", lambda own: {*trackers} & {*own.trackers}


class LoggingConfig(Section):
    """What a run writes about itself."""

    READ_WHERE: ClassVar = {
        "wandb": _named("wandb"),
        "mlflow": _named("mlflow"),
        "trackio": _named("trackio"),
        "directory": _named("tensorboard", "wandb"),
        "project": _named("wandb", "mlflow", "trackio"),
        "run_name": _named(*get_args(TrackerName)),
    }

    every: Annotated[int, Field(ge=1)] = 1
    """Rounds between two lines of progress where there is no terminal."""
    episodes_every: Annotated[int, Field(ge=1)] = 10
    """Rounds between two files of sample episodes; the first and last round are kept too."""
    episodes: Annotated[int, Field(ge=0, le=MOST_EPISODES)] = 2
    """Sample episodes per file."""
    evaluation_episodes: Annotated[int, Field(ge=0, le=MOST_EPISODES)] = 64
    """Episodes played before and after training to measure what was learned; 0 for none."""
    trackers: Annotated[tuple[TrackerName, ...], Field(strict=False)] = ()
    """Of `tensorboard`, `trackio`, `wandb` and `mlflow`, those that get the run's numbers and
    sample episodes (docs/training/trackers.md)."""
    project: Annotated[str, Field(min_length=1)] = "core-srl"
    """The project (wandb, trackio) or experiment (mlflow) that the run belongs to."""
    run_name: str | None = None
    """What trackers call the run; null is the name of its folder."""
    directory: str | None = None
    """TensorBoard's files go to DIRECTORY/RUN_NAME and W&B's below DIRECTORY; null is the run's
    folder."""
    wandb: WandbConfig = WandbConfig()
    """What Weights & Biases asks for."""
    mlflow: MlflowConfig = MlflowConfig()
    """Where MLflow's runs are."""
    trackio: TrackioConfig = TrackioConfig()
    """Where Trackio's runs are."""

    @field_validator("run_name")
    @classmethod
    def check_run_name(cls, name: str | None) -> str | None:
        """The name, if folders may be called that."""
        if name is not None and not _RUN_NAME.fullmatch(name):
            raise ValueError(
                "at most 100 letters, digits, spaces, '.', '_' and '-', a letter or digit first"
            )
        return name

    @model_validator(mode="after")
    def _check_trackers(self) -> LoggingConfig:
        if len(set(self.trackers)) < len(self.trackers):
            raise ConfigError(f"trackers: got {', '.join(self.trackers)}: name each once")
        return self
