"""Documents of the live page: one run with its progress, or a list of all runs."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from srl_extensions.pages import report
from srl_extensions.pages.document import (
    Block,
    Document,
    Notes,
    PageSection,
    RoundProgress,
    Runs,
    Text,
)
from srl_extensions.pages.live_runs import WatchedRun
from srl_extensions.pages.run_folder import RecordedRun, mean, number_at
from srl_extensions.pages.transcript import newest
from srl_train.metrics.tables import number

RECENT_ROWS = 20
"""Number of rows over which the pace is averaged."""


def of_run(name: str, watched: WatchedRun, *, trusted: bool = False) -> Document:
    """Return the page of the run `name`; `trusted` as in `report.write_report`."""
    run, episode = watched.record, watched.playing
    top: list[Block] = []
    if watched.problems:
        top.append(Notes("Files that cannot be read", watched.problems))
    if run is None:
        return Document(name, "", top)
    top.append(progress(run))
    shown: list[Block] = []
    if episode is not None:
        place = episode.extra.get("round")
        part = "Evaluation" if place is None else f"Round {place}"
        turn = f"turn {len(episode.turns) + 1} is running"
        ended = "finished" if watched.playing_ended else turn
        shown.append(Text(f"{part}: {ended}. Newest turns first."))
        shown += report.sample_episode(episode, run, trusted=trusted, drawn=newest)
    return report.report(run, name, top, PageSection("Newest episode", shown))


def overview(runs: Mapping[str, WatchedRun], given: Sequence[Path]) -> Document:
    """Return the page that links the runs in and below the `given` folders, newest first."""
    folders = ", ".join(map(str, given))
    if not runs:
        return Document("No runs yet", folders, [Text(f"No run is in {folders} yet.")])
    lines = []
    for name, watched in runs.items():
        run = watched.record
        about, done = ", ".join(watched.problems), RoundProgress(math.nan, [])
        if run is not None:
            first, last = run.edges("raw_reward")
            reward = f" · raw reward {number(first)} → {number(last)}" if run.rows else ""
            about = f"{report.title(run)} · {run.mode}, {run.strategy}{reward}"
            done = progress(run)
        lines.append({"name": name, "about": about, "progress": done})
    title = f"{len(runs)} runs" if len(runs) > 1 else "One run"
    return Document(title, folders, [Runs(lines[::-1])])


def progress(run: RecordedRun) -> RoundProgress:
    """Return the progress of a run: completed rounds, seconds per round and time left."""
    done, planned = run.rows[-1]["round"] + 1 if run.rows else 0, number_at(run.config, "rounds")
    words = [f"round {done} of {planned:.0f}" if math.isfinite(planned) else f"round {done}"]
    rollout, train, overlap = (
        mean(run.series("seconds", part)[-RECENT_ROWS:]) for part in ("rollout", "train", "overlap")
    )
    seconds = rollout + train - (overlap if math.isfinite(overlap) else 0.0)
    if planned <= done:
        words.append("finished")
    elif not done and run.stages:
        stage, rows = list(run.stages.items())[-1]
        words.append(f"{stage.upper()}: {len(rows)} passes")
    elif not done:
        words.append("the first round is running")
    elif math.isfinite(seconds):
        words.append(f"{number(seconds, 3)} s per round")
        if 0 < (left := seconds * (planned - done)) < 1e9:
            words.append(f"{timedelta(seconds=round(left))} left")
    return RoundProgress(done / planned if planned > 0 else math.nan, words)
