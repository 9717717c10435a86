"""Trackers of a run together: opened, told apart in threads of their own, and found again."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from srl_agents.atomic_files import whole_file
from srl_agents.episode import Episode
from srl_envs.errors import DocumentError
from srl_envs.loading.extras import needed_by
from srl_envs.loading.untrusted import printable, read_bytes, read_json
from srl_envs.text.view import TextView
from srl_train.metrics.errors import TrackerError
from srl_train.metrics.trackers import games, names
from srl_train.metrics.trackers.mlflow_run import MlflowRun
from srl_train.metrics.trackers.tensorboard_run import TensorBoardRun
from srl_train.metrics.trackers.tracker import Opening, Tracker
from srl_train.metrics.trackers.trackio_run import TrackioRun
from srl_train.metrics.trackers.wandb_run import WandbRun

TRACKERS: Mapping[str, Callable[[Opening], Tracker]] = {
    "tensorboard": TensorBoardRun,
    "trackio": TrackioRun,
    "wandb": WandbRun,
    "mlflow": MlflowRun,
}
"""Name in a configuration -> what opens it."""
FILE = "trackers.json"
"""In a run's folder: by what each library knows the run, and the last step it has of each kind."""
_KNOWN_AS = re.compile(r"\w[\w .\-]{0,200}")
_LOG = logging.getLogger(__name__)


class Trackers:
    """All trackers of a run. What one cannot take is warned of, and the run goes on.

    A step is an update of the models: a pass over a stage's data, then a round.
    """

    def __init__(self, opening: Opening, passes: Mapping[str, int], rounds: int) -> None:
        """Open those that are configured; `passes` are each stage's, in order.

        Raises TrackerError for one that cannot be opened, with the library's own words.
        """
        self._passes, self._rounds = passes, rounds
        self._path, self._lock = opening.folder / FILE, threading.Lock()
        known = _read(self._path) if opening.step else {}
        self._state: dict[str, dict[str, Any]] = {}
        self._lines: list[_Line] = []
        with ExitStack() as ends:  # of those that are open where the next cannot be opened
            for name in opening.config.trackers:
                own = known.get(name, {"known_as": None, "last": {}})
                tracker = _opened(name, replace(opening, known_as=own["known_as"]))
                last = own["last"]
                if tracker.hides_from is None:
                    self._state[name] = {"known_as": tracker.known_as, "last": last}
                else:
                    last = dict.fromkeys(_KINDS, tracker.hides_from - 1)
                self._lines.append(_Line(name, tracker, last, self._save))
                ends.callback(self._lines[-1].close, False)
            try:
                self._save()
            except OSError as error:
                raise TrackerError(f"{self._path} cannot be written: {error.strerror}") from error
            ends.pop_all()

    def write(self, row: Mapping[str, Any]) -> None:
        """Take a row of a pass or of a round."""
        if "stage" in row:
            numbers, step = names.of_pass(row), row["round"]
            self._tell(row["stage"], step, lambda tracker: tracker.log(numbers, step))
        else:
            numbers, step = names.of_round(row), sum(self._passes.values()) + row["round"]
            self._tell("train", step, lambda tracker: tracker.log(numbers, step))

    def write_evaluation(self, when: str, measured: Mapping[str, Any]) -> None:
        """Take an evaluation, at the step before which it was made."""
        numbers, stages = names.of_evaluation(when, measured), list(self._passes)
        done = stages
        if when == "before":
            done = []
        elif when.startswith("after_"):
            done = stages[: stages.index(when.removeprefix("after_")) + 1]
        step = sum(self._passes[stage] for stage in done)
        if when == "after":
            step += self._rounds
        elif when.startswith("round_"):
            step += int(when.removeprefix("round_"))
        self._tell("eval", step, lambda tracker: tracker.log(numbers, step))

    def write_samples(self, number: int, episodes: Sequence[Episode], view: TextView) -> None:
        """Take sample games of a round."""
        step = sum(self._passes.values()) + number
        rows = games.rows(episodes, view, step)
        if rows:
            self._tell("episodes", step, lambda tracker: tracker.table(rows, step))

    def close(self, finished: bool = False) -> None:
        """Wait for what is left, and end the runs; `finished` is whether nothing is left to train.
        Where a library fails by then, what waits for it is given up."""
        for line in self._lines:
            line.close(finished)

    def _tell(self, kind: str, step: int, call: Callable[[Tracker], None]) -> None:
        for line in self._lines:
            line.put(kind, step, call)

    def _save(self) -> None:
        with self._lock:
            if self._state:
                with whole_file(self._path) as file:
                    json.dump(self._state, file, indent=2)


_KINDS = ("sft", "dpo", "train", "eval", "episodes")
"""What is recorded in order of steps, each by itself."""


class _Line:
    """One tracker in a thread, so that no round waits for a server."""

    def __init__(
        self, name: str, tracker: Tracker, last: dict[str, int], save: Callable[[], None]
    ) -> None:
        self._name, self._tracker, self._last, self._save = name, tracker, last, save
        self._handed = dict(last)
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._closing = self._unsaved = False
        self._lost = 0

    def put(self, kind: str, step: int, call: Callable[[Tracker], None]) -> None:
        """Have it recorded, unless the library has that step."""
        if step > self._handed.get(kind, -1):
            self._handed[kind] = step
            done = self._pool.submit(call, self._tracker)
            done.add_done_callback(lambda future: self._done(kind, step, future))

    def close(self, finished: bool) -> None:
        """End the run after what waits."""
        self._closing = True
        done = self._pool.submit(self._tracker.close, finished)
        done.add_done_callback(self._failed)
        self._pool.shutdown()
        if self._lost:
            _LOG.warning(
                "%s lacks %d of the run's records: metrics.jsonl and episodes/ in the run's folder "
                "have them",
                self._name,
                self._lost,
            )

    def _done(self, kind: str, step: int, future: Future[None]) -> None:
        if self._failed(future):
            self._lost += 1
        else:
            self._last[kind] = step
            try:
                self._save()
            except OSError as error:
                if not self._unsaved:
                    _LOG.warning("%s cannot be written, so that a resumed run may record steps of "
                                 "%s again: %s", FILE, self._name, error.strerror)  # fmt: skip
                self._unsaved = True

    def _failed(self, future: Future[None]) -> bool:
        if future.cancelled():
            return True
        error = future.exception()
        if error is not None and not self._lost:
            _LOG.warning("%s did not take a record, the run goes on: %s", self._name, told(error))
        if error is not None and self._closing:
            self._pool.shutdown(wait=False, cancel_futures=True)
        return error is not None


def refuse_missing(trackers: Iterable[str]) -> None:
    """Raise TrackerError for the first that is not installed, with the line that installs it."""
    for name in trackers:
        with needed_by(f"logging.trackers: {name}", TrackerError):
            if find_spec(name) is None:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def told(error: BaseException) -> str:
    """A library's error in one line, without what it quotes of keys and passwords."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return printable(names.without_secrets(text), multiline=False)[:400]


def _opened(name: str, opening: Opening) -> Tracker:
    try:
        return TRACKERS[name](opening)
    except TrackerError:
        raise
    except Exception as error:
        again = ""
        if opening.known_as is not None:
            again = f" (to go on in a new one, remove {name} from {opening.folder / FILE})"
        raise TrackerError(
            f"logging.trackers: {name} cannot be opened{again}: {told(error)}"
        ) from error


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """What the file says; nothing where there is none. It may be anybody's."""
    if not path.exists():
        return {}
    try:
        found = read_json(read_bytes(path))
    except DocumentError as error:
        raise TrackerError(f"{path} cannot be read: {error}") from error
    entries = found.items() if isinstance(found, dict) else [("it", None)]
    for name, own in entries:
        fits = (
            isinstance(own, dict)
            and own.keys() == {"known_as", "last"}
            and isinstance(own["known_as"], str)
            and _KNOWN_AS.fullmatch(own["known_as"])
            and isinstance(own["last"], dict)
            and all(isinstance(step, int) for step in own["last"].values())
        )
        if not fits:
            raise TrackerError(
                f"{path}: {name!r} is no run of a tracker: it needs known_as and last; remove it"
            )
    return dict(found)
