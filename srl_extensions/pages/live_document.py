"""Documents of the live page: one run with its progress, or an overview of all runs."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from srl_extensions.pages import figures, report
from srl_extensions.pages.document import (
    Block,
    Cards,
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
MOST_COMPARED = 12
"""Number of newest runs in the figures of the overview."""


def of_run(name: str, watched: WatchedRun, *, trusted: bool = False) -> Document:
    """Return the page of the run `name`; `trusted` as in `report.write_report`."""
    run = watched.record
    problems = [Notes("Files that cannot be read", watched.problems)] if watched.problems else []
    if run is None:
        return Document(name, "", problems)
    warned = [Notes("Warnings of the run", run.warnings)] if run.warnings else []
    reading = report.READING_CHARTS
    if run.rows and len(run.rows) <= run.rows[-1]["round"]:
        reading += f" The page has {len(run.rows)} of the rounds; sums are over these rounds."
    parts = [
        PageSection("Newest episode", list(_running_episode(watched, run, trusted))),
        *report.sections(run),
        PageSection("Configuration", report.configuration(run)),
    ]
    return Document(
        report.title(run),
        f"run {name} · {report.settings_line(run)}",
        [*problems, *warned, progress(run), Cards(report.measured_cards(run)), Text(reading)],
        [part for part in parts if part.blocks],
    )


def overview(runs: Mapping[str, WatchedRun], given: Sequence[Path]) -> Document:
    """Return the page that links the runs below the `given` folders and compares the newest."""
    folders = ", ".join(map(str, given))
    if not runs:
        waiting = f"No run is in {folders} yet. The first run appears here."
        return Document("No runs yet", folders, [Text(waiting)])
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
    newest_runs = list(runs.items())[-MOST_COMPARED:]
    compared = {name: one.record for name, one in newest_runs if one.record is not None}
    return Document(
        f"{len(runs)} runs" if len(runs) > 1 else "One run",
        folders,
        [Runs(lines[::-1])],
        [PageSection("Comparison of the runs", figures.figure(figures.side_by_side(compared)))],
    )


def progress(run: RecordedRun) -> RoundProgress:
    """Return the progress of a run: completed rounds, seconds per round and time left."""
    done, planned = run.rows[-1]["round"] + 1 if run.rows else 0, number_at(run.config, "rounds")
    words = [f"round {done} of {planned:.0f}" if math.isfinite(planned) else f"round {done}"]
    seconds = _seconds_per_round(run)
    if planned <= done:
        words.append("finished")
    elif not done and run.stages:
        stage, rows = list(run.stages.items())[-1]
        epochs = number(number_at(run.config, stage, "epochs"), 9)
        words.append(f"{stage.upper()} pass {len(rows)} of {epochs}")
    elif not done:
        words.append("the first round is running")
    elif math.isfinite(seconds):
        words.append(f"{number(seconds, 3)} s per round")
        if 0 < (left := seconds * (planned - done)) < 1e9:
            words.append(f"{timedelta(seconds=round(left))} left")
    return RoundProgress(done / planned if planned > 0 else math.nan, words)


def _seconds_per_round(run: RecordedRun) -> float:
    """Return the mean duration of the newest rounds, or NaN if it is unknown."""
    parts = (run.series("seconds", part)[-RECENT_ROWS:] for part in ("rollout", "train", "overlap"))
    return mean(
        [
            rollout + train - (overlap if math.isfinite(overlap) else 0.0)
            for rollout, train, overlap in zip(*parts, strict=True)
        ]
    )


def _running_episode(watched: WatchedRun, run: RecordedRun, trusted: bool) -> Iterator[Block]:
    episode = watched.playing
    if episode is None:
        return
    number = episode.extra.get("round")
    part = "Evaluation" if number is None else f"Round {number}"
    turn = f"turn {len(episode.turns) + 1} is running"
    yield Text(f"{part}: {'finished' if watched.playing_ended else turn}. Newest turns first.")
    yield from report.sample_episode(episode, run, trusted=trusted, drawn=newest)
