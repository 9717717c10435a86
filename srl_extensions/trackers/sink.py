"""Sink that sends the metrics of a run to all configured trackers, each in its own thread."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError
from typing_extensions import TypedDict

from srl_agents.atomic_files import whole_file
from srl_envs.errors import DocumentError
from srl_envs.loading import needed_by
from srl_envs.untrusted import printable, read_bytes
from srl_extensions.trackers import names
from srl_extensions.trackers.libraries import LIBRARIES, Opening
from srl_train.config.run import RunConfig
from srl_train.config.yaml_file import to_tree
from srl_train.errors import TrackerError
from srl_train.metrics.sinks import SinkContext, read_metrics

FILE = "trackers.json"
"""File in the run's folder with the identifier of the run in each library, and its last steps."""
_LOG = logging.getLogger(__name__)


class KnownRun(TypedDict):
    """Run in a library, as recorded in trackers.json."""

    run_id: Annotated[str, Field(pattern=r"^\w[\w .\-]{0,200}$")]
    last: dict[str, int]
    """Last logged step of each kind of record."""


_STATE = TypeAdapter(dict[str, KnownRun], config=ConfigDict(extra="forbid", strict=True))


def check(config: RunConfig) -> None:
    """Raise TrackerError for the first configured tracker that is not installed."""
    for name in config.logging.trackers:
        with needed_by(f"logging.trackers: {name}", TrackerError):
            if find_spec(name) is None:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def open_sink(context: SinkContext) -> TrackerSink | None:
    """Open the configured trackers, and log those rows of a resumed run that they lack.

    Raises:
        TrackerError: If a tracker cannot be opened, or trackers.json is damaged.
    """
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
    """All trackers of a run. If a tracker fails, a warning is logged and the run continues.

    Steps count passes over the data of the stages, then rounds.

    Args:
        opening: Arguments with which each tracker is opened.
        passes: Stage to its number of passes, in the order of the stages.
        rounds: Number of rounds of the run.

    Raises:
        TrackerError: If a tracker cannot be opened, or trackers.json cannot be read or written.
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
                run_id, last = (own["run_id"], own["last"]) if own else (None, {})
                one = TrackerThread(name, replace(opening, run_id=run_id), last, self._save)
                opened.callback(one.close, False)
                self._threads.append(one)
                if one.run.hides_from is None:
                    self._state[name] = {"run_id": one.run.run_id, "last": one.last}
            try:
                self._save()
            except OSError as error:
                raise TrackerError(f"{self._path} cannot be written: {error.strerror}") from error
            opened.pop_all()

    def write(self, row: Mapping[str, Any]) -> None:
        """Log the row of a pass or of a round."""
        if "stage" in row:
            self._log(names.of_pass(row), row["stage"], row["round"])
        else:
            self._log(names.of_round(row), "train", sum(self._passes.values()) + row["round"])

    def write_evaluation(self, when: str, measured: Mapping[str, Any]) -> None:
        """Log an evaluation, at the number of steps that precede it."""
        stages = list(self._passes)
        if when == "before":
            stages = []
        elif when.startswith("after_"):
            stages = stages[: stages.index(when.removeprefix("after_")) + 1]
        step = sum(self._passes[stage] for stage in stages)
        if when == "after":
            step += self._rounds
        elif when.startswith("round_"):
            step += int(when.removeprefix("round_"))
        self._log(names.of_evaluation(when, measured), "eval", step)

    def close(self, finished: bool = False) -> None:
        """Log the pending records and end the runs, as complete if `finished` is True."""
        for one in self._threads:
            one.close(finished)

    def _log(self, numbers: Mapping[str, float], kind: str, step: int) -> None:
        for one in self._threads:
            one.log(numbers, kind, step)

    def _save(self) -> None:
        with self._lock:
            if self._state:
                with whole_file(self._path) as file:
                    json.dump(self._state, file, indent=2)


class TrackerThread:
    """One tracker in its own thread, so that no round waits for a server.

    Args:
        name: Name of the library.
        opening: Arguments of the run.
        last: Last step of each kind of record that the library has.
        save: Function that is called after each logged record.

    Raises:
        TrackerError: If the tracker cannot be opened.
    """

    def __init__(
        self, name: str, opening: Opening, last: Mapping[str, int], save: Callable[[], None]
    ) -> None:
        self.last, self._submitted = dict(last), dict(last)
        self._name, self._save = name, save
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix=name)
        self._closing = False
        self._lost = 0
        try:
            self.run = self._pool.submit(LIBRARIES[name], opening).result()
        except Exception as error:
            self._pool.shutdown()
            raise TrackerError(
                f"logging.trackers: {name} cannot be opened: {one_line(error)}"
            ) from error

    def log(self, numbers: Mapping[str, float], kind: str, step: int) -> None:
        """Log a record in the thread, unless the library has this or a later step of the kind."""
        seen = self._submitted.get(kind, (self.run.hides_from or 0) - 1)
        if step > seen:
            self._submitted[kind] = step
            done = self._pool.submit(self._logged, numbers, kind, step)
            done.add_done_callback(self._count_lost)

    def close(self, finished: bool) -> None:
        """Log the pending records and end the run. After a failure, pending records are dropped."""
        self._closing = True
        self._pool.submit(self.run.close, finished).add_done_callback(self._has_failed)
        self._pool.shutdown()
        if self._lost:
            _LOG.warning(
                "%s lacks %d of the run's records: metrics.jsonl in the run's folder has them",
                self._name, self._lost,
            )  # fmt: skip

    def _logged(self, numbers: Mapping[str, float], kind: str, step: int) -> None:
        self.run.log(numbers, step)
        self.last[kind] = step
        self._save()

    def _count_lost(self, future: Future[Any]) -> None:
        failed = self._has_failed(future)  # This may cancel other records, which are counted, too.
        self._lost += failed

    def _has_failed(self, future: Future[Any]) -> bool:
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
    """Return the error as one line of text without keys and passwords."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return printable(names.without_secrets(text), multiline=False)[:400]


def _read_state(path: Path) -> dict[str, KnownRun]:
    try:
        return _STATE.validate_json(read_bytes(path)) if path.exists() else {}
    except (DocumentError, ValidationError) as error:
        raise TrackerError(f"{path} is damaged, remove it: {one_line(error)}") from error
