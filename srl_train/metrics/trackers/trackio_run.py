"""A run of Trackio."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from srl_envs.loading.extras import needed_by
from srl_train.metrics.errors import TrackerError
from srl_train.metrics.trackers.games import COLUMNS, Row
from srl_train.metrics.trackers.tracker import Opening


class TrackioRun:
    """Metrics, configuration and tables of games, on this machine or in a Space."""

    hides_from: int | None = None

    def __init__(self, opening: Opening) -> None:
        with needed_by("logging.trackers: trackio", TrackerError):
            import trackio
        self._trackio = trackio
        project = opening.config.project
        self._run = trackio.init(
            project,
            name=opening.known_as or _free_name(trackio, project, opening.name),
            space_id=opening.config.trackio.space_id,
            config=dict(opening.settings),
            resume="never" if opening.known_as is None else "must",
            embed=False,
        )
        self.known_as: str = self._run.name

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Log numbers."""
        self._run.log(dict(numbers), step=step)

    def table(self, rows: Sequence[Row], step: int) -> None:
        """Log a table."""
        table = self._trackio.Table(columns=list(COLUMNS), data=[list(row) for row in rows])
        self._run.log({"episodes": table}, step=step)

    def close(self, finished: bool) -> None:
        """Send what is left."""
        self._run.finish()


def _free_name(trackio: Any, project: str, name: str) -> str:
    """The name, or that with a number: Trackio finds a run to go on with by its name alone."""
    try:
        taken = {run.name for run in trackio.Api().runs(project)}
    except ValueError:  # no such project yet
        return name
    numbered = (f"{name}-{number}" for number in count(2))
    return name if name not in taken else next(one for one in numbered if one not in taken)
