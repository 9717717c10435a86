"""TensorBoard's event files of a run."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from srl_envs.loading.extras import needed_by
from srl_train.metrics.errors import TrackerError
from srl_train.metrics.trackers.games import COLUMNS, Row
from srl_train.metrics.trackers.tracker import Opening

_ENTITIES = {ord(sign): f"&#{ord(sign)};" for sign in string.punctuation} | {10: "<br>"}
"""What Markdown and HTML give a meaning; TensorBoard draws text as both, pictures and links too."""
_SHOWN = ("train/reward", "eval/reward")
"""What stands beside the settings under HPARAMS."""


class TensorBoardRun:
    """Scalars, settings and tables of games as TensorBoard reads them."""

    def __init__(self, opening: Opening) -> None:
        with needed_by("logging.trackers: tensorboard", TrackerError):
            from torch.utils.tensorboard import SummaryWriter
            from torch.utils.tensorboard.summary import hparams
        folder = opening.folder / "tensorboard"
        if opening.config.directory is not None:
            folder = Path(opening.config.directory) / opening.name
        held = any(folder.glob("events.out.tfevents.*"))
        if held and opening.step == 0 and opening.config.directory is not None:
            raise TrackerError(
                f"{folder} holds the events of another run: remove them, or give another "
                "logging.run_name or logging.directory"
            )
        self.known_as = opening.name
        self.hides_from: int | None = opening.step if held else 0
        # TensorBoard hides what lies at the step from which the run goes on, and beyond.
        writer: Any = SummaryWriter(str(folder), purge_step=self.hides_from)
        if self.hides_from == 0:
            metrics = dict.fromkeys(_SHOWN, 0.0)
            for one in hparams(dict(opening.settings), metrics):  # type: ignore[no-untyped-call]
                writer.file_writer.add_summary(one)
        self._writer = writer

    def log(self, numbers: Mapping[str, float], step: int) -> None:
        """Write scalars."""
        for name, value in numbers.items():
            self._writer.add_scalar(name, value, step)
        self._writer.flush()

    def table(self, rows: Sequence[Row], step: int) -> None:
        """Write a table as text."""
        lines = [COLUMNS, ["---"] * len(COLUMNS), *([_plain(cell) for cell in row] for row in rows)]
        text = "\n".join(f"| {' | '.join(line)} |" for line in lines)
        self._writer.add_text("episodes", text, step)
        self._writer.flush()

    def close(self, finished: bool) -> None:
        """Close the file."""
        self._writer.close()


def _plain(cell: object) -> str:
    return str(cell).translate(_ENTITIES)
