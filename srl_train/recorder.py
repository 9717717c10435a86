"""Recorder of a run, which writes rows, episodes and evaluations to files and sinks."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager
from typing import Any

from srl_agents.episode import write_jsonl
from srl_train import processes
from srl_train.config import yaml_file
from srl_train.config.run import RunConfig
from srl_train.metrics.progress import Progress
from srl_train.metrics.sinks import SINKS, JsonlSink, Sink
from srl_train.round import RoundResult
from srl_train.run import Run
from srl_train.run_files import RunFiles, finite, write_whole
from srl_train.summaries import summary


class Recorder:
    """Recorder of a run. Under torchrun, only the main process records.

    Args:
        files: Files of the run.
        sinks: Receivers of the metrics rows, closed by `end_rounds`.
        keep_rows: If true, write the configuration, the rows and the summary to files.
        progress: If true, print progress lines to stderr, as `logging.every` says.
    """

    def __init__(
        self, files: RunFiles, sinks: tuple[Sink, ...], *, keep_rows: bool, progress: bool = False
    ) -> None:
        self._writes = processes.is_main()
        self._keeps_rows = keep_rows and self._writes
        self._prints = progress and self._writes
        self._files = files
        self._sinks = list(sinks) if self._writes else []
        self._trackers: list[Sink] = []
        """Sinks that the configuration names, which are open until `close`."""
        self._rows: tuple[Sink, ...] = ()
        self.is_open = False
        """True while rounds are recorded."""

    def refuse_missing(self, config: RunConfig) -> None:
        """Raise TrackerError if a configured tracker is not installed; main process only."""
        for name in SINKS if self._writes else ():
            SINKS.load(name).check(config)

    def open(self, run: Run) -> None:
        """Open trackers, and start progress lines if requested.

        With `keep_rows`, config.yaml is written, and rows after the completed rounds are removed
        from metrics.jsonl. Raises TrackerError if a tracker fails, MetricsError for damaged rows.
        """
        if self._writes and not self._trackers:
            position = run.config, self._files.folder, sum(run.position)
            opened = [SINKS.load(name).open_sink(*position) for name in SINKS]
            self._trackers = [sink for sink in opened if sink is not None]
        if self._keeps_rows:
            write_whole(self._files.config, yaml_file.dump(run.config))
            self._rows = (JsonlSink(self._files.metrics, resume_from_round=run.next_round),)
        if self._prints:
            self._sinks.append(Progress(run.config.rounds, log_every=run.config.logging.every))
            self._prints = False
        self.is_open = True

    @contextmanager
    def stage(self, run: Run) -> Iterator[Callable[[Mapping[str, Any]], None]]:
        """Yield a function that sends a pass's row to all sinks and trackers.

        With `keep_rows`, also appends to stages.jsonl, after removing rows of incomplete passes.
        """
        with ExitStack() as stack:
            rows: tuple[Sink, ...] = ()
            if self._keeps_rows:
                rows = (JsonlSink(self._files.stages, run.stages.passes),)
                stack.enter_context(closing(rows[0]))
            yield lambda row: self._write(row, rows)

    def _write(self, row: Mapping[str, Any], rows: Iterable[Sink]) -> None:
        for sink in (*rows, *self._sinks, *self._trackers):
            sink.write(row)

    def round(self, run: Run, result: RoundResult) -> None:
        """Send a round's row to sinks and trackers, and its episodes to sinks that accept them.

        The row is appended to metrics.jsonl with `keep_rows` only. Even without it, the first
        `logging.episodes` episodes are written to a file every `logging.episodes_every` rounds and
        after the last round. Increase `run.next_round` before.
        """
        number, section = result.row["round"], run.config.logging
        self._write(result.row, self._rows)
        for sink in self._sinks:
            if hasattr(sink, "write_episodes"):
                sink.write_episodes(number, result.episodes)
        due = number % section.episodes_every == 0 or run.next_round == run.config.rounds
        if self._writes and section.episodes and due:
            path = self._files.folder / "episodes" / f"round_{number:08d}.jsonl"
            write_jsonl(path, result.episodes[: section.episodes])

    def evaluation(self, run: Run, when: str) -> None:
        """Send `run.evaluations[when]` to the sinks and trackers that accept evaluations."""
        for sink in (*self._sinks, *self._trackers):
            if hasattr(sink, "write_evaluation"):
                sink.write_evaluation(when, run.evaluations[when])

    def summary(self, run: Run) -> None:
        """Write summary.json into the run's folder, with `keep_rows` only."""
        if self._keeps_rows:
            text = json.dumps(finite(summary(run)), indent=2) + "\n"
            write_whole(self._files.folder / "summary.json", text)

    def end_rounds(self) -> None:
        """Close metrics.jsonl and the sinks, but not the trackers. A second call has no effect."""
        if self.is_open:
            self.is_open = False
            _close(*self._rows, *self._sinks)

    def close(self) -> None:
        """Call `end_rounds`, and close the trackers. A second call has no effect."""
        self.end_rounds()
        trackers, self._trackers = self._trackers, []
        _close(*trackers)


def _close(*sinks: Sink) -> None:
    with ExitStack() as stack:
        for sink in sinks:
            stack.callback(sink.close)
