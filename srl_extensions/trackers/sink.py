"""Sink that sends a run to all configured trackers, each in a thread, and finds them on resume."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from srl_agents.atomic_files import whole_file
from srl_agents.episode import Episode
from srl_envs.errors import DocumentError
from srl_envs.loading import needed_by
from srl_envs.text import TextView
from srl_envs.untrusted import printable, read_bytes
from srl_extensions.trackers import names
from srl_extensions.trackers.libraries import Opening, TrackerRun, open_run, table_rows
from srl_train.config.run import RunConfig
from srl_train.config.yaml_file import to_tree
from srl_train.metrics.errors import TrackerError
from srl_train.metrics.sinks import SinkContext, read_metrics

FILE = "trackers.json"
"""File in the run folder: identifier of the run in each library, and the last step of each kind."""
KINDS = ("sft", "dpo", "train", "eval", "episodes")
"""Kinds of records. The steps of one kind are logged in order."""
_LOG = logging.getLogger(__name__)


class KnownRun(TypedDict):
    """Run in a library, as trackers.json records it."""

    run_id: Annotated[str, Field(pattern=r"^\w[\w .\-]{0,200}$")]
    last: dict[str, int]


_STATE = TypeAdapter(dict[str, KnownRun], config=ConfigDict(extra="forbid", strict=True))


def check(config: RunConfig) -> None:
    """Raise TrackerError for the first configured tracker that is not installed."""
    for name in config.logging.trackers:
        with needed_by(f"logging.trackers: {name}", TrackerError):
            if find_spec(name) is None:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def open_sink(context: SinkContext) -> TrackerSink | None:
    """Open the configured trackers, and log the rows of a resumed run that they lack."""
    config, folder = context.config, context.folder
    if not config.logging.trackers:
        return None
    rounds, passes = context.position
    opening = Opening(
        config=config.logging,
        folder=folder,
        name=config.logging.run_name or names.segment(folder.resolve().name),
        settings=names.of_settings(to_tree(config)),
        step=passes + rounds,
    )
    sink = TrackerSink(opening, context.stages, config.rounds)
    for name, done in (("stages.jsonl", passes), ("metrics.jsonl", rounds)):
        path = folder / name
        for row in read_metrics(path) if path.exists() and opening.step else ():
            if row["round"] < done:
                sink.write(row)
    for when, measured in context.evaluations.items():
        sink.write_evaluation(when, measured)
    return sink


class TrackerSink:
    """All trackers of a run. A failure of a tracker is a warning, and the run continues.

    A step is an update of the models: a pass over the data of a stage, then a round.

    Args:
        opening: Arguments for every tracker.
        passes: Stage to its number of passes, in order.
        rounds: Number of rounds of the run.
    """

    def __init__(self, opening: Opening, passes: Mapping[str, int], rounds: int) -> None:
        self._passes, self._rounds = passes, rounds
        self._path, self._lock = opening.folder / FILE, threading.Lock()
        self._state: dict[str, KnownRun] = {}
        self._threads: list[TrackerThread] = []
        known = _read_state(self._path) if opening.step else {}
        with ExitStack() as opened:
            for name in opening.config.trackers:
                own = known.get(name)
                run_id = own["run_id"] if own else None
                one = TrackerThread(name, replace(opening, run_id=run_id), self._save)
                opened.callback(one.close, False)
                self._threads.append(one)
                if one.run.hides_from is None:
                    one.skip(own["last"] if own else {})
                    self._state[name] = {"run_id": one.run.run_id, "last": one.last}
                else:
                    one.skip(dict.fromkeys(KINDS, one.run.hides_from - 1))
            try:
                self._save()
            except OSError as error:
                raise TrackerError(f"{self._path} cannot be written: {error.strerror}") from error
            opened.pop_all()

    def write(self, row: Mapping[str, Any]) -> None:
        """Log the row of a pass or of a round."""
        if "stage" in row:
            numbers, kind, step = names.of_pass(row), row["stage"], row["round"]
        else:
            numbers, kind = names.of_round(row), "train"
            step = sum(self._passes.values()) + row["round"]
        self._submit(kind, step, lambda run: run.log(numbers, step))

    def write_evaluation(self, when: str, measured: Mapping[str, Any]) -> None:
        """Log an evaluation at the step before which it was made."""
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
        self._submit("eval", step, lambda run: run.log(numbers, step))

    def write_samples(self, number: int, episodes: Sequence[Episode], view: TextView) -> None:
        """Log sample episodes of round `number`."""
        step = sum(self._passes.values()) + number
        rows = table_rows(episodes, view, step)
        if rows:
            self._submit("episodes", step, lambda run: run.log_table(rows, step))

    def close(self, finished: bool = False) -> None:
        """Wait for pending records, and end the runs. A library that fails now drops its records.

        Args:
            finished: Whether the training is complete.
        """
        for one in self._threads:
            one.close(finished)

    def _submit(self, kind: str, step: int, call: Callable[[TrackerRun], None]) -> None:
        for one in self._threads:
            one.submit(kind, step, call)

    def _save(self) -> None:
        with self._lock:
            if self._state:
                with whole_file(self._path) as file:
                    json.dump(self._state, file, indent=2)


class TrackerThread:
    """One tracker in its own thread, so that no round waits for a server.

    `save` is called after each record that was logged. Raises TrackerError if the tracker cannot
    be opened.
    """

    def __init__(self, name: str, opening: Opening, save: Callable[[], None]) -> None:
        self.last: dict[str, int] = {}
        """Last step of each kind that the library has."""
        self._name, self._save = name, save
        self._submitted: dict[str, int] = {}
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._closing = self._save_failed = False
        self._lost = 0
        try:
            self.run = self._pool.submit(open_run, name, opening).result()
        except Exception as error:
            self._pool.shutdown()
            if isinstance(error, TrackerError):
                raise
            again = ""
            if opening.run_id is not None:
                again = f" (to start a new run, remove {name} from {opening.folder / FILE})"
            raise TrackerError(
                f"logging.trackers: {name} cannot be opened{again}: {one_line(error)}"
            ) from error

    def skip(self, last: Mapping[str, int]) -> None:
        """Skip records up to these steps, which the library has."""
        self.last.update(last)
        self._submitted.update(last)

    def submit(self, kind: str, step: int, call: Callable[[TrackerRun], None]) -> None:
        """Log a record in the thread, unless the library has this step."""
        if step > self._submitted.get(kind, -1):
            self._submitted[kind] = step
            done = self._pool.submit(call, self.run)
            done.add_done_callback(lambda future: self._logged(kind, step, future))

    def close(self, finished: bool) -> None:
        """End the run after the pending records."""
        self._closing = True
        self._pool.submit(self.run.close, finished).add_done_callback(self._has_failed)
        self._pool.shutdown()
        if self._lost:
            _LOG.warning(
                "%s lacks %d of the run's records: metrics.jsonl and episodes/ in the run's folder "
                "have them", self._name, self._lost,
            )  # fmt: skip

    def _logged(self, kind: str, step: int, future: Future[None]) -> None:
        if self._has_failed(future):
            self._lost += 1
            return
        self.last[kind] = step
        try:
            self._save()
        except OSError as error:
            if not self._save_failed:
                _LOG.warning("%s cannot be written, so a resumed run may log steps of %s again: %s",
                             FILE, self._name, error.strerror)  # fmt: skip
            self._save_failed = True

    def _has_failed(self, future: Future[None]) -> bool:
        if future.cancelled():
            return True
        error = future.exception()
        if error is not None and not self._lost:
            _LOG.warning(
                "%s failed to log a record, the run continues: %s", self._name, one_line(error)
            )
        if error is not None and self._closing:
            self._pool.shutdown(wait=False, cancel_futures=True)
        return error is not None


def one_line(error: BaseException) -> str:
    """Return a library's error in one line without keys and passwords."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return printable(names.without_secrets(text), multiline=False)[:400]


def _read_state(path: Path) -> dict[str, KnownRun]:
    try:
        return _STATE.validate_json(read_bytes(path)) if path.exists() else {}
    except (DocumentError, ValidationError) as error:
        raise TrackerError(f"{path} is damaged, remove it: {one_line(error)}") from error
