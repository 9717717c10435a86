"""A run of Weights & Biases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from srl_envs.loading.extras import needed_by
from srl_train.metrics.errors import TrackerError
from srl_train.metrics.trackers.games import COLUMNS, Row
from srl_train.metrics.trackers.tracker import Opening


class WandbRun:
    """History, configuration and tables of games; `step` is the axis of all charts."""

    hides_from: int | None = None

    def __init__(self, opening: Opening) -> None:
        with needed_by("logging.trackers: wandb", TrackerError):
            import wandb
        own = opening.config.wandb
        self._wandb = wandb
        self._run = wandb.init(
            project=opening.config.project,
            name=opening.name,
            entity=own.entity,
            group=own.group,
            tags=list(own.tags) or None,
            mode=own.mode,
            dir=opening.config.directory or str(opening.folder),
            config=dict(opening.settings),
            id=opening.known_as,
            resume="allow",
            allow_val_change=True,
            reinit="create_new",  # a run of the caller's own stays as it is
            # The progress is drawn anew in place all the time, and is no log.
            settings=wandb.Settings(console="off"),
        )
        self.known_as: str = self._run.id
        # W&B's own steps only grow, and drop what is logged of an older one.
        self._run.define_metric("step")
        self._run.define_metric("*", step_metric="step")

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Add a line to the history."""
        self._run.log({**numbers, "step": step})

    def table(self, rows: Sequence[Row], step: int) -> None:
        """Log a table."""
        table = self._wandb.Table(columns=list(COLUMNS), data=[list(row) for row in rows])
        self._run.log({"episodes": table, "step": step})

    def close(self, finished: bool) -> None:
        """Finish the run; one that is not finished counts as failed."""
        self._run.finish(exit_code=0 if finished else 1)
