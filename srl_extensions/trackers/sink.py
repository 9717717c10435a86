"""Sink that sends the metrics of a run to all configured trackers, in a thread."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import replace
from functools import partial
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
from srl_extensions.trackers.libraries import LIBRARIES, Opening, TrackerRun
from srl_train.config.run import RunConfig
from srl_train.config.yaml_file import to_tree
from srl_train.errors import TrackerError

FILE = "trackers.json"
"""File in the run's folder with the identifier of the run in each library, and its last steps."""
_LOG = logging.getLogger(__name__)


class KnownRun(TypedDict):
    """Run in a library, as recorded in trackers.json."""

    run_id: Annotated[str, Field(pattern=r"^\w[\w .\-]*$", max_length=201)]
    last: dict[str, int]
    """Kind of record -> last logged step."""


_STATE = TypeAdapter(dict[str, KnownRun], config=ConfigDict(extra="forbid", strict=True))


def check(config: RunConfig) -> None:
    """Raise TrackerError for the first tracker of `config.logging` that is not installed."""
    for name in config.logging.trackers:
        with needed_by(f"logging.trackers: {name}", TrackerError):
            if find_spec(name) is None:
                raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def open_sink(config: RunConfig, folder: Path, step: int) -> TrackerSink | None:
    """Open the configured trackers; return None if there are none.

    `step` is the number of complete passes and rounds. 0 starts new runs, else runs recorded in
    `folder`/trackers.json continue.
    """
    if not config.logging.trackers:
        return None
    opening = Opening(
        config=config.logging,
        folder=folder,
        name=config.logging.run_name or names.segment(folder.resolve().name),
        settings=names.of_settings(to_tree(config)),
        step=step,
    )
    passes = {name: stage.epochs for name, stage in config.stages.items()}
    return TrackerSink(opening, passes, config.rounds)


class TrackerSink:
    """All trackers of a run. If an open one fails, one warning is logged and the run continues.

    All calls of the libraries come from one thread, so that no round waits for a server.
    """

    def __init__(self, opening: Opening, passes: Mapping[str, int], rounds: int) -> None:
        """Open all trackers, with the run ids of trackers.json unless `opening.step` is 0.

        Steps count the passes of all stages (`passes`: stage -> number), then the `rounds`.
        Raises TrackerError if this fails.
        """
        self._passes, self._rounds = passes, rounds
        self._path = opening.folder / FILE
        self._runs: dict[str, TrackerRun] = {}
        """Name of each tracker -> its open run."""
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="trackers")
        self._closing = False
        try:
            self._thread.submit(self._start, opening).result()
        except TrackerError:
            self.close()
            raise

    def write(self, row: Mapping[str, Any]) -> None:
        """Queue the row of a pass (with `stage`) or of a round; steps logged before are skipped."""
        if "stage" in row:
            self._log(names.of_pass(row), row["stage"], row["round"])
        else:
            self._log(names.of_round(row), "train", sum(self._passes.values()) + row["round"])

    def write_evaluation(self, when: str, measured: Mapping[str, Any]) -> None:
        """Queue an evaluation at its step; `when` is before, after_STAGE, round_N or after."""
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

    def close(self) -> None:
        """Log pending records except those of failed runs, end all runs, and wait."""
        self._closing = True
        for name, run in self._runs.items():
            self._submit(name, run, run.tracker.finish)
        self._thread.shutdown()

    def _log(self, numbers: Mapping[str, float], kind: str, step: int) -> None:
        for name, run in self._runs.items():
            self._submit(name, run, partial(self._record, run, numbers, kind, step))

    def _submit(self, name: str, run: TrackerRun, call: Callable[[], None]) -> None:
        def check(done: Future[None]) -> None:
            error = done.exception()
            if error is not None and not run.failed:
                _LOG.warning(
                    "%s failed to log a record, the run continues; metrics.jsonl in the run's "
                    "folder has all records: %s", name, one_line(error),
                )  # fmt: skip
            run.failed |= error is not None

        self._thread.submit(call).add_done_callback(check)

    # The following methods run in the thread.

    def _start(self, opening: Opening) -> None:
        known = _read_state(self._path) if opening.step else {}
        for name in opening.config.trackers:
            own = known.get(name)
            try:
                run = LIBRARIES[name](replace(opening, run_id=own["run_id"] if own else None))
            except Exception as error:
                raise TrackerError(
                    f"logging.trackers: {name} cannot be opened: {one_line(error)}"
                ) from error
            if own:
                run.last = own["last"]
            self._runs[name] = run
        try:
            self._save()
        except OSError as error:
            raise TrackerError(f"{self._path} cannot be written: {error.strerror}") from error

    def _record(self, run: TrackerRun, numbers: Mapping[str, float], kind: str, step: int) -> None:
        if step > run.last.get(kind, -1) and not (run.failed and self._closing):
            run.log(numbers, step)
            run.last[kind] = step
            self._save()

    def _save(self) -> None:
        state = {
            name: {"run_id": run.run_id, "last": run.last}
            for name, run in self._runs.items()
            if run.run_id is not None
        }
        if state:
            with whole_file(self._path) as file:
                json.dump(state, file, indent=2)


def one_line(error: BaseException) -> str:
    """Return an error's type and text, at most 400 characters, as one line without secrets."""
    text = " ".join(f"{type(error).__name__}: {error}".split())
    return printable(names.without_secrets(text), multiline=False)[:400]


def _read_state(path: Path) -> dict[str, KnownRun]:
    try:
        return _STATE.validate_json(read_bytes(path)) if path.exists() else {}
    except (DocumentError, ValidationError) as error:
        raise TrackerError(f"{path} is damaged, remove it: {one_line(error)}") from error
