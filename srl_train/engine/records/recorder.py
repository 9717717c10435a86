"""Recorder of a run: rows, games and evaluations, handed to its files and sinks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from srl_train.config.run import RunConfig
from srl_train.config.yaml_file import to_tree
from srl_train.distributed import processes
from srl_train.engine.offline.progress import planned
from srl_train.engine.records.playing import GameUnderWay
from srl_train.engine.records.summaries import summary
from srl_train.engine.rounds import RoundResult
from srl_train.engine.run_files import RunFiles
from srl_train.engine.state import Run
from srl_train.metrics.progress import Progress
from srl_train.metrics.sinks import JsonlSink, Sink, Tee, Watcher, read_metrics
from srl_train.metrics.trackers.names import of_settings, segment
from srl_train.metrics.trackers.together import Trackers, refuse_missing
from srl_train.metrics.trackers.tracker import Opening


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
        self._trackers: Trackers | None = None

    def refuse_missing(self, config: RunConfig) -> None:
        """Raise TrackerError for a tracker that is not installed, before anything is loaded."""
        if self._writes:
            refuse_missing(config.logging.trackers)

    @property
    def is_open(self) -> bool:
        """Whether rounds are recorded."""
        return self._rounds is not None

    def open(self, run: Run) -> None:
        """Begin, or go on where the run stands: rows beyond that are dropped.

        Raises TrackerError for a tracker that cannot be opened.
        """
        if self._writes and self._trackers is None and run.config.logging.trackers:
            self._trackers = self._opened(run)
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
            yield Tee(rows, *self._sinks, *self._progress, *self._tracked())
        finally:
            rows.close()

    def round(self, run: Run, result: RoundResult) -> None:
        """Take a round that has just been counted."""
        number, logging = result.row["round"], run.config.logging
        if self._rounds is not None:
            self._rounds.write(result.row)
        for trackers in self._tracked():
            trackers.write(result.row)
        for sink in self._watchers():
            sink.write_episodes(number, result.episodes)
        due = number % logging.episodes_every == 0 or run.next_round == run.config.rounds
        if self._writes and logging.episodes and due:
            samples = result.episodes[: logging.episodes]
            self._files.write_episodes(number, samples)
            for trackers in self._tracked():
                trackers.write_samples(number, samples, run.view)

    def evaluation(self, run: Run, when: str) -> None:
        """Take an evaluation that the run has just made."""
        for sink in self._watchers():
            sink.write_evaluation(when, run.evaluations[when])
        for trackers in self._tracked():
            trackers.write_evaluation(when, run.evaluations[when])

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
        for trackers in self._tracked():
            trackers.close(finished)
        self._trackers = None

    def _opened(self, run: Run) -> Trackers:
        config, number = run.config, run.next_round
        stages = {name: stage.epochs for name, stage in planned(config).items()}
        opening = Opening(
            config=config.logging,
            folder=self._files.folder,
            name=config.logging.run_name or segment(self._files.folder.resolve().name),
            settings=of_settings(to_tree(config)),
            step=sum(run.position),
            known_as=None,
        )
        trackers = Trackers(opening, stages, config.rounds)
        # What one of them lacks: it is new to the run, or was not reached before the run stopped.
        for path, done in ((self._files.stages, run.stages.passes), (self._files.metrics, number)):
            for row in read_metrics(path) if path.exists() and opening.step else ():
                if row["round"] < done:
                    trackers.write(row)
        for when, measured in run.evaluations.items():
            trackers.write_evaluation(when, measured)
        return trackers

    def _tracked(self) -> tuple[Trackers, ...]:
        return () if self._trackers is None else (self._trackers,)

    def _watchers(self) -> Iterator[Watcher]:
        return (sink for sink in self._sinks if isinstance(sink, Watcher))
