"""Recorder of a run: rows, episodes and evaluations, written to files and sinks."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from srl_agents.episode import AgentStep, Episode, to_json, turn_to_json
from srl_agents.rollout import Spectator
from srl_envs.untrusted import cut
from srl_train import processes
from srl_train.config.learning.offline import planned
from srl_train.config.run import RunConfig
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
from srl_train.round import RoundResult
from srl_train.run import Run
from srl_train.run_files import RunFiles
from srl_train.summaries import summary

log = logging.getLogger(__name__)
PAUSE, PATIENCE = 1.0, 60.0
"""Minimum seconds between the starts of two recorded episodes, and seconds without a step after
which another episode is recorded."""
MOST_TURNS, LONGEST = 200, 4000
"""Maximum number of recorded steps, and of characters of an observation or message."""


class Recorder:
    """Recorder of a run. Only the main process of several records."""

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
        """Raise the error of a sink that cannot work, before models are loaded."""
        for name in SINKS if self._writes else ():
            SINKS.load(name).check(config)

    @property
    def is_open(self) -> bool:
        """True while rounds are recorded."""
        return self._rounds is not None

    def open(self, run: Run) -> None:
        """Open files and sinks at the run's position; later rows are dropped.

        Raises:
            TrackerError: If a tracker cannot be opened.
        """
        if self._writes and self._configured is None:
            self._configured = self._opened(run)
        rows: tuple[Sink, ...] = ()
        if self.keeps_rows:
            self._files.write_config(run.config)
            rows = (JsonlSink(self._files.metrics, resume_from_round=run.next_round),)
            run.engine.spectator = EpisodeWriter(self._files.playing).spectator
        if self._prints:
            progress = Progress(run.config.rounds, log_every=run.config.logging.every)
            self._progress = (progress,)
        self._rounds = Tee(*rows, *self._sinks, *self._progress)

    @contextmanager
    def stage(self, run: Run) -> Iterator[Sink]:
        """Return the sink for the rows of a stage."""
        rows = JsonlSink(self._files.stages, run.stages.passes) if self.keeps_rows else Tee()
        try:
            yield Tee(rows, *self._sinks, *self._progress, *(self._configured or ()))
        finally:
            rows.close()

    def round(self, run: Run, result: RoundResult) -> None:
        """Record a completed round."""
        number, logging = result.row["round"], run.config.logging
        if self._rounds is not None:
            self._rounds.write(result.row)
        for configured in self._configured or ():
            configured.write(result.row)
        for sink in self._watchers():
            sink.write_episodes(number, result.episodes)
        due = number % logging.episodes_every == 0 or run.next_round == run.config.rounds
        if self._writes and logging.episodes and due:
            self._files.write_episodes(number, result.episodes[: logging.episodes])

    def evaluation(self, run: Run, when: str) -> None:
        """Record a new evaluation."""
        for sink in self._watchers():
            sink.write_evaluation(when, run.evaluations[when])
        for configured in self._configured or ():
            configured.write_evaluation(when, run.evaluations[when])

    def summary(self, run: Run) -> None:
        """Write summary.json."""
        if self.keeps_rows:
            self._files.write_summary(summary(run))

    def end_rounds(self) -> None:
        """Close the sinks of rounds."""
        if self._rounds is not None:
            self._rounds.close()
            self._rounds = None

    def close(self, *, finished: bool) -> None:
        """Close all sinks."""
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


class EpisodeWriter:
    """Writer of playing.jsonl: an episode without steps, a line per step, an empty step at the end.

    One episode at a time and at most one per second, so that the cost for the run is negligible.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._recording = False
        self._lock = threading.Lock()
        self._began = self._heard = -PATIENCE
        self._games = 0

    def spectator(self) -> Spectator | None:
        """Return the spectator of the next episode, or None if another was recorded just now."""
        with self._lock:
            now = time.monotonic()
            busy = self._recording and now - self._heard < PATIENCE
            if busy or now - self._began < PAUSE:
                return None
            self._games += 1
            self._began = self._heard = now
            number = self._games
        return lambda episode, over: self._watch(number, episode, over)

    def _watch(self, number: int, episode: Episode, over: bool) -> None:
        with self._lock:
            if number != self._games:
                return
            self._heard = time.monotonic()
            try:
                self._record(episode, over)
            except (OSError, TypeError, ValueError) as error:
                # A full disk, or observations that are not plain data, must not end the run.
                log.warning("stopped writing %s: %s", self._path, error)
                self._began, self._recording = float("inf"), False

    def _record(self, episode: Episode, over: bool) -> None:
        if not episode.turns and not over:
            # Without fsync: the file need not survive a crash.
            partial = self._path.with_name(".playing.partial")
            partial.unlink(missing_ok=True)
            with partial.open("x", encoding="ascii") as file:
                file.write(to_json(replace(episode, states=None)) + "\n")
            partial.replace(self._path)
            self._recording = True
        elif self._recording and (over or len(episode.turns) <= MOST_TURNS):
            turn = [] if over else [_short(step) for step in episode.turns[-1]]
            with self._path.open("a", encoding="ascii") as file:
                file.write(turn_to_json(turn) + "\n")
            self._recording = not over


def _short(step: AgentStep) -> AgentStep:
    """Return the step without tokens and infos, with texts cut."""
    text, seen = step.decision.text, step.observation
    return replace(
        step,
        observation=cut(seen, LONGEST) if isinstance(seen, str) else seen,
        decision=replace(
            step.decision, tokens=None, text=None if text is None else cut(text, LONGEST)
        ),
        info={},
        messages=tuple((sender, cut(text, LONGEST)) for sender, text in step.messages),
    )
