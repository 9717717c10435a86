"""Recorder of a run, which writes rows, episodes and evaluations to files and sinks."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from srl_agents.episode import AgentStep, Episode, to_json, turn_to_json, write_jsonl
from srl_agents.rollout import Spectator
from srl_train import processes
from srl_train.config import yaml_file
from srl_train.config.run import RunConfig
from srl_train.metrics.progress import Progress
from srl_train.metrics.sinks import SINKS, JsonlSink, Sink
from srl_train.round import RoundResult
from srl_train.run import Run
from srl_train.run_files import RunFiles, finite, write_whole
from srl_train.summaries import summary

log = logging.getLogger(__name__)
PAUSE = 1.0
"""Minimum number of seconds between the starts of two recorded episodes."""


class Recorder:
    """Recorder of a run. Under torchrun, only the main process records.

    Args:
        files: Files of the run.
        sinks: Receivers of the metrics rows.
        keep_rows: If true, write the configuration, the rows and the summary too.
        progress: If true, print a line per round to stderr.
    """

    def __init__(
        self, files: RunFiles, sinks: tuple[Sink, ...], *, keep_rows: bool, progress: bool = False
    ) -> None:
        self._writes = processes.is_main()
        self._keeps_rows = keep_rows and self._writes
        self._prints = progress and self._writes
        self._files = files
        self._sinks = sinks if self._writes else ()
        self._progress: tuple[Sink, ...] = ()
        self._open: tuple[Sink, ...] | None = None
        """Sinks of the rounds, or None before `open` and after `end_rounds`."""
        self._configured: tuple[Sink, ...] = ()

    def refuse_missing(self, config: RunConfig) -> None:
        """Raise the error of a configured sink that cannot work, before models are loaded."""
        for name in SINKS if self._writes else ():
            SINKS.load(name).check(config)

    @property
    def is_open(self) -> bool:
        """True while rounds are recorded."""
        return self._open is not None

    def open(self, run: Run) -> None:
        """Open files and sinks at the position of the run, and drop later rows of the files.

        Raises:
            TrackerError: If a tracker cannot be opened.
        """
        if self._writes and not self._configured:
            position = run.config, self._files.folder, sum(run.position)
            opened = [SINKS.load(name).open_sink(*position) for name in SINKS]
            self._configured = tuple(sink for sink in opened if sink is not None)
        rows: tuple[Sink, ...] = ()
        if self._keeps_rows:
            write_whole(self._files.config, yaml_file.dump(run.config))
            rows = (JsonlSink(self._files.metrics, resume_from_round=run.next_round),)
            run.engine.spectator = EpisodeWriter(self._files.folder / "playing.jsonl").spectator
        if self._prints:
            self._progress = (Progress(run.config.rounds, log_every=run.config.logging.every),)
        self._open = (*rows, *self._sinks, *self._progress)

    @contextmanager
    def stage(self, run: Run) -> Iterator[Callable[[Mapping[str, Any]], None]]:
        """Return a function that records the row of a pass of a stage."""
        with ExitStack() as stack:
            sinks = [*self._sinks, *self._progress, *self._configured]
            if self._keeps_rows:
                rows = JsonlSink(self._files.stages, run.stages.passes)
                stack.callback(rows.close)
                sinks.insert(0, rows)

            def write(row: Mapping[str, Any]) -> None:
                for sink in sinks:
                    sink.write(row)

            yield write

    def round(self, run: Run, result: RoundResult) -> None:
        """Record a completed round."""
        number, section = result.row["round"], run.config.logging
        for sink in (*(self._open or ()), *self._configured):
            sink.write(result.row)
        for sink in self._sinks:
            if hasattr(sink, "write_episodes"):
                sink.write_episodes(number, result.episodes)
        due = number % section.episodes_every == 0 or run.next_round == run.config.rounds
        if self._writes and section.episodes and due:
            path = self._files.folder / "episodes" / f"round_{number:08d}.jsonl"
            write_jsonl(path, result.episodes[: section.episodes])

    def evaluation(self, run: Run, when: str) -> None:
        """Record the evaluation `run.evaluations[when]`."""
        for sink in (*self._sinks, *self._configured):
            if hasattr(sink, "write_evaluation"):
                sink.write_evaluation(when, run.evaluations[when])

    def summary(self, run: Run) -> None:
        """Write summary.json."""
        if self._keeps_rows:
            text = json.dumps(finite(summary(run)), indent=2) + "\n"
            write_whole(self._files.folder / "summary.json", text)

    def end_rounds(self) -> None:
        """Close the sinks of the rounds, all of them even if one fails."""
        sinks, self._open = self._open or (), None
        with ExitStack() as stack:
            for sink in reversed(sinks):
                stack.callback(sink.close)

    def close(self) -> None:
        """Close all sinks."""
        self.end_rounds()
        configured, self._configured = self._configured, ()
        for sink in configured:
            sink.close()


class EpisodeWriter:
    """Writer of playing.jsonl, the newest episode for `srl watch`.

    The file contains an episode without steps, a line per step, and an empty step at the end. At
    most one episode per second is written, so that the cost is negligible.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._began = -PAUSE
        self._number = self._written = 0
        """Numbers of the newest episode, and of the episode in the file."""

    def spectator(self) -> Spectator | None:
        """Return the spectator of the next episode, or None if the episode is not recorded."""
        with self._lock:
            now = time.monotonic()
            if now - self._began < PAUSE:
                return None
            self._began = now
            self._number += 1
            number = self._number
        return lambda episode, over: self._watch(number, episode, over)

    def _watch(self, number: int, episode: Episode, over: bool) -> None:
        with self._lock:
            if number != self._number:
                return
            try:
                if not episode.turns and not over:
                    # No fsync, since the file need not survive a crash.
                    partial = self._path.with_name(".playing.partial")
                    partial.write_text(to_json(replace(episode, states=None)) + "\n", "ascii")
                    partial.replace(self._path)
                    self._written = number
                elif self._written == number:
                    with self._path.open("a", encoding="ascii") as file:
                        file.write(
                            turn_to_json([] if over else _shortened(episode.turns[-1])) + "\n"
                        )
            except (OSError, TypeError, ValueError) as error:
                # A full disk or observations that are not plain data must not end the run.
                log.warning("stopped writing %s: %s", self._path, error)
                self._began, self._number = float("inf"), 0


def _shortened(turn: Sequence[AgentStep]) -> list[AgentStep]:
    """Return the steps of a turn without tokens and infos."""
    return [replace(s, decision=replace(s.decision, tokens=None), info={}) for s in turn]
