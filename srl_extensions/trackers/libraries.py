"""Runs in the tracking libraries, through the trackers of `accelerate.tracking`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any

from srl_train.config.logging import LoggingConfig
from srl_train.errors import TrackerError


@dataclass(frozen=True)
class Opening:
    """Arguments to open a run in a tracking library."""

    config: LoggingConfig
    folder: Path
    """Folder of the run."""
    name: str
    settings: Mapping[str, int | float | str]
    """Settings of the run by dotted name, such as "algorithm.name", without secrets."""
    step: int
    """Number of complete passes and rounds; 0 for a new run."""
    run_id: str | None = None
    """Identifier of the run to continue in the library, or None to open a new run."""

    def options(self, tracker: str) -> dict[str, Any]:
        """Return a shallow copy of `config.tracker_options[tracker]`, or {} if missing."""
        return dict(self.config.tracker_options.get(tracker, {}))  # type: ignore[call-overload]


@dataclass
class TrackerRun:
    """Run in one library. Call its tracker in one thread only; any error may be raised."""

    tracker: Any
    """Tracker of `accelerate.tracking`."""
    run_id: str | None
    """Identifier with which the library continues the run, or None if it needs no identifier."""
    with_step: bool = False
    """True to log the step as the metric `step`, not as the library's step."""
    last: dict[str, int] = field(default_factory=dict)
    """Kind of record -> last logged step. The sink skips steps up to this step."""
    failed: bool = False
    """True after an error. The sink continues to log until it is closed."""

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Log the metrics of a step in the library; its errors are raised."""
        if self.with_step:
            self.tracker.log({**numbers, "step": step})
        else:
            self.tracker.log(dict(numbers), step=step)


def _started(tracker: Any) -> Any:
    from accelerate import PartialState

    PartialState()  # The loggers of accelerate require this state.
    tracker.start()
    return tracker


def tensorboard_run(opening: Opening) -> TrackerRun:
    """Open a run of TensorBoard in `folder`/tensorboard, or `config.directory`/`name` if set.

    Existing records of `step` and later steps are hidden; `run_id` and `settings` are unused.
    Raises TrackerError for events of another run.
    """
    from accelerate.tracking import TensorBoardTracker

    folder = opening.folder / "tensorboard"
    if opening.config.directory is not None:
        folder = Path(opening.config.directory) / opening.name
        if opening.step == 0 and any(folder.glob("events.out.tfevents.*")):
            raise TrackerError(
                f"{folder} contains the events of another run: remove them, or set another "
                "logging.run_name or logging.directory"
            )
    # TensorBoard hides the earlier records of purge_step and later steps.
    tracker = _started(TensorBoardTracker(folder.name, str(folder.parent), purge_step=opening.step))
    return TrackerRun(tracker, None)


def wandb_run(opening: Opening) -> TrackerRun:
    """Open a run of Weights & Biases, or continue `run_id`; all charts use the metric `step`."""
    import wandb
    from accelerate.tracking import WandBTracker

    tracker = _started(WandBTracker(
        opening.config.project,
        name=opening.name,
        dir=opening.config.directory or str(opening.folder),
        config=dict(opening.settings),
        id=opening.run_id,
        resume="allow",
        allow_val_change=True,
        reinit="create_new",  # A run that the caller has opened stays active.
        settings=wandb.Settings(console="off"),  # The progress line is not a log.
        **opening.options("wandb"),
    ))  # fmt: skip
    run = tracker.run
    # W&B drops rows whose own step is lower than the last one, so `step` is a metric.
    run.define_metric("step")
    run.define_metric("*", step_metric="step")
    return TrackerRun(tracker, run.id, with_step=True)


def trackio_run(opening: Opening) -> TrackerRun:
    """Open a run of Trackio under a new name ("name-2" if taken), or continue `run_id`."""
    import trackio
    from accelerate.tracking import TrackioTracker

    project, name = opening.config.project, opening.run_id
    if name is None:
        # Trackio continues a run of the same name, so a new run needs a free name.
        try:
            taken = {run.name for run in trackio.Api().runs(project)}
        except ValueError:  # There is no such project yet.
            taken = set()
        names = (f"{opening.name}-{n}" if n > 1 else opening.name for n in count(1))
        name = next(one for one in names if one not in taken)
    tracker = _started(TrackioTracker(
        project,
        name=name,
        config=dict(opening.settings),
        resume="never" if opening.run_id is None else "must",
        embed=False,
        **opening.options("trackio"),
    ))  # fmt: skip
    return TrackerRun(tracker, tracker.run.name)


def mlflow_run(opening: Opening) -> TrackerRun:
    """Open a run of MLflow, or continue `run_id`; the option tracking_uri is set globally."""
    import mlflow
    from accelerate.tracking import MLflowTracker

    options = opening.options("mlflow")
    if "tracking_uri" in options:
        mlflow.set_tracking_uri(options.pop("tracking_uri"))
    tracker = _started(MLflowTracker(
        opening.config.project, run_id=opening.run_id, run_name=opening.name, **options
    ))  # fmt: skip
    if opening.run_id is None:
        tracker.store_init_configuration(dict(opening.settings))
    return TrackerRun(tracker, tracker.active_run.info.run_id)


LIBRARIES: Mapping[str, Callable[[Opening], TrackerRun]] = {
    "tensorboard": tensorboard_run,
    "trackio": trackio_run,
    "wandb": wandb_run,
    "mlflow": mlflow_run,
}
"""Functions that open a run, by name in `logging.trackers`. They may raise any error."""
