"""Recorder of a run: rows, games and evaluations, handed to its files and sinks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from srl_train.distributed import processes
from srl_train.engine.records.playing import GameUnderWay
from srl_train.engine.records.summaries import summary
from srl_train.engine.rounds import RoundResult
from srl_train.engine.run_files import RunFiles
from srl_train.engine.state import Run
from srl_train.metrics.sinks import JsonlSink, Sink, Tee, Watcher


class Recorder:
    """What a run tells of itself. Of several processes, the main one alone records."""

    def __init__(self, files: RunFiles, sinks: tuple[Sink, ...], *, keep_rows: bool) -> None:
        """`keep_rows` is whether the folder gets the configuration, rows and the summary too."""
        main = processes.is_main()
        self.keeps_rows = keep_rows and main
        self._writes = main
        self._files = files
        self._sinks = sinks if main else ()
        self._rounds: Sink | None = None

    @property
    def is_open(self) -> bool:
        """Whether rounds are recorded."""
        return self._rounds is not None

    def open(self, run: Run) -> None:
        """Begin, or go on where the run stands: rows beyond that are dropped."""
        rows: tuple[Sink, ...] = ()
        if self.keeps_rows:
            self._files.write_config(run.config)
            rows = (JsonlSink(self._files.metrics, resume_from_round=run.next_round),)
            run.playing = GameUnderWay(self._files.playing)
        self._rounds = Tee(*rows, *self._sinks)

    @contextmanager
    def stage(self, run: Run) -> Iterator[Sink]:
        """What takes the rows of a stage's passes."""
        rows = JsonlSink(self._files.stages, run.stages.passes) if self.keeps_rows else Tee()
        try:
            yield Tee(rows, *self._sinks)
        finally:
            rows.close()

    def round(self, run: Run, result: RoundResult) -> None:
        """Take a round that has just been counted."""
        number, logging = result.row["round"], run.config.logging
        if self._rounds is not None:
            self._rounds.write(result.row)
        for sink in self._watchers():
            sink.write_episodes(number, result.episodes)
        due = number % logging.episodes_every == 0 or run.next_round == run.config.rounds
        if self._writes and logging.episodes and due:
            self._files.write_episodes(number, result.episodes[: logging.episodes])

    def evaluation(self, run: Run, when: str) -> None:
        """Take an evaluation that the run has just made."""
        for sink in self._watchers():
            sink.write_evaluation(when, run.evaluations[when])

    def summary(self, run: Run) -> None:
        """Write what the run has come to so far."""
        if self.keeps_rows:
            self._files.write_summary(summary(run))

    def end_rounds(self) -> None:
        """Close what takes rows."""
        if self._rounds is not None:
            self._rounds.close()
            self._rounds = None

    def _watchers(self) -> Iterator[Watcher]:
        return (sink for sink in self._sinks if isinstance(sink, Watcher))
