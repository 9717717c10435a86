"""Recorder of a run: rows, games and evaluations, handed to its files and sinks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from srl_train.config.run import RunConfig
from srl_train.distributed import processes
from srl_train.engine.offline.progress import planned
from srl_train.engine.records.playing import GameUnderWay
from srl_train.engine.records.summaries import summary
from srl_train.engine.rounds import RoundResult
from srl_train.engine.run_files import RunFiles
from srl_train.engine.state import Run
from srl_train.metrics.progress import Progress
from srl_train.metrics.sinks import (
    SINKS,
    ConfiguredSink,
    JsonlSink,
    Sink,
    SinkContext,
    Tee,
    Watcher,
)


class Recorder:
    """What a run tells of itself. Of several processes, the main one alone records."""

    def __init__(
        self,
        files: RunFiles,
        sinks: tuple[Sink, ...],
        *,
        keep_rows: bool,
        progress: bool = False,
    ) -> None:
        """Record into `files` and `sinks`.

        Args:
            files: Files of the run.
            sinks: Receivers of rows, episodes and evaluations.
            keep_rows: If True, write the configuration, rows and the summary too.
            progress: If True, print a line per round to stderr.
        """
        main = processes.is_main()
        self.keeps_rows = keep_rows and main
        self._writes = main
        self._files = files
        self._sinks = sinks if main else ()
        self._prints = progress and main
        self._progress: tuple[Sink, ...] = ()
        self._rounds: Sink | None = None
        self._configured: tuple[ConfiguredSink, ...] | None = None

    def refuse_missing(self, config: RunConfig) -> None:
        """Raise the error of a sink that cannot work, before anything is loaded."""
        for name in SINKS if self._writes else ():
            SINKS.load(name).check(config)

    @property
    def is_open(self) -> bool:
        """Whether rounds are recorded."""
        return self._rounds is not None

    def open(self, run: Run) -> None:
        """Begin, or go on where the run stands: rows beyond that are dropped.

        Raises TrackerError for a tracker that cannot be opened.
        """
        if self._writes and self._configured is None:
            self._configured = self._opened(run)
        rows: tuple[Sink, ...] = ()
        if self.keeps_rows:
            self._files.write_config(run.config)
            rows = (JsonlSink(self._files.metrics, resume_from_round=run.next_round),)
            run.playing = GameUnderWay(self._files.playing)
        if self._prints:
            progress = Progress(run.config.rounds, log_every=run.config.logging.every)
            self._progress = (progress,)
        self._rounds = Tee(*rows, *self._sinks, *self._progress)

    @contextmanager
    def stage(self, run: Run) -> Iterator[Sink]:
        """What takes the rows of a stage's passes."""
        rows = JsonlSink(self._files.stages, run.stages.passes) if self.keeps_rows else Tee()
        try:
            yield Tee(rows, *self._sinks, *self._progress, *(self._configured or ()))
        finally:
            rows.close()

    def round(self, run: Run, result: RoundResult) -> None:
        """Take a round that has just been counted."""
        number, logging = result.row["round"], run.config.logging
        if self._rounds is not None:
            self._rounds.write(result.row)
        for configured in self._configured or ():
            configured.write(result.row)
        for sink in self._watchers():
            sink.write_episodes(number, result.episodes)
        due = number % logging.episodes_every == 0 or run.next_round == run.config.rounds
        if self._writes and logging.episodes and due:
            samples = result.episodes[: logging.episodes]
            self._files.write_episodes(number, samples)
            for configured in self._configured or ():
                configured.write_samples(number, samples, run.view)

    def evaluation(self, run: Run, when: str) -> None:
        """Take an evaluation that the run has just made."""
        for sink in self._watchers():
            sink.write_evaluation(when, run.evaluations[when])
        for configured in self._configured or ():
            configured.write_evaluation(when, run.evaluations[when])

    def summary(self, run: Run) -> None:
        """Write what the run has come to so far."""
        if self.keeps_rows:
            self._files.write_summary(summary(run))

    def end_rounds(self) -> None:
        """Close what takes rows."""
        if self._rounds is not None:
            self._rounds.close()
            self._rounds = None

    def close(self, *, finished: bool) -> None:
        """Close what takes the evaluation after training too."""
        self.end_rounds()
        for configured in self._configured or ():
            configured.close(finished)
        self._configured = None

    def _opened(self, run: Run) -> tuple[ConfiguredSink, ...]:
        context = SinkContext(
            config=run.config,
            folder=self._files.folder,
            stages={name: stage.epochs for name, stage in planned(run.config).items()},
            position=run.position,
            evaluations=run.evaluations,
        )
        opened = (SINKS.load(name).open_sink(context) for name in SINKS)
        return tuple(sink for sink in opened if sink is not None)

    def _watchers(self) -> Iterator[Watcher]:
        return (sink for sink in self._sinks if isinstance(sink, Watcher))
