"""Documents of the live page: a run with its progress, or several runs side by side."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from srl_extensions.pages import figures, report
from srl_extensions.pages.live_runs import WatchedRun
from srl_train.metrics.document import (
    MISSING,
    Block,
    Cards,
    Document,
    Games,
    PageSection,
    RoundProgress,
    RunLine,
    Runs,
    Text,
    number,
)
from srl_train.metrics.headline import edges
from srl_train.metrics.run_folder import number_at, sample_label
from srl_train.metrics.seeds import SeedEntry
from srl_train.metrics.transcript import newest

MOST_COMPARED = 12
"""Number of newest runs in the figures of the overview."""


def of_run(name: str, run: WatchedRun, *, trusted: bool = False) -> Document:
    """Return the document of one run; `trusted` as in `report.write_report`."""
    stride = run.rounds_read.stride
    thinned = [Text(f"Each point is the mean of {stride} rounds.")] if stride > 1 else []
    files = [(file, sample_label(Path(file))) for file in run.files]
    parts = [
        PageSection("Currently running episode", list(_running_episode(run, trusted))),
        PageSection("Sample games", [Games(name, files)] if files else []),
        *report.sections(run),
        PageSection("Configuration", report.configuration(run)),
    ]
    return Document(
        report.title(run),
        f"{name} · {report.settings_line(run)}",
        [*report.notes(run, partial="Files that cannot be read."), progress(run), _cards(run),
         *thinned],
        [part for part in parts if part.blocks],
    )  # fmt: skip


def without_run(name: str) -> Document:
    """Return the document of a run whose folder is missing."""
    return Document(name, "", [Text("There is no run in this folder. A new run appears here.")])


def overview(runs: Mapping[str, WatchedRun], given: Sequence[Path], left_out: int) -> Document:
    """Return the document of all runs below the `given` folders except `left_out` old runs."""
    folders = ", ".join(map(str, given))
    if not runs:
        waiting = f"No run is in {folders} yet. The first run appears here."
        return Document("No runs yet", folders, [Text(waiting)])
    lines = []
    for name, run in runs.items():
        first, last = edges(run.series("environment", "raw_reward"))
        reward = f" · raw reward {number(first)} → {number(last)}" if run.rows else ""
        about = f"{report.title(run)} · {run.mode}, {run.strategy}{reward}"
        lines.append(RunLine(name, about, progress(run)))
    compared = [SeedEntry(name, (run,)) for name, run in list(runs.items())[-MOST_COMPARED:]]
    drawn = figures.figure(figures.side_by_side(compared), "The number after a name is its last "
                           "value.")  # fmt: skip
    more = [Text(f"{left_out} older runs are not shown.")] if left_out else []
    return Document(
        f"{len(runs)} runs" if len(runs) > 1 else "One run",
        folders,
        [Runs(lines[::-1]), *more],
        [PageSection("Side by side", drawn)],
    )


def progress(run: WatchedRun) -> RoundProgress:
    """Return the number of rounds that were completed, the pace and the time left."""
    done, planned = _completed(run), number_at(run.config, "rounds")
    words = [f"round {done} of {planned:.0f}" if math.isfinite(planned) else f"round {done}"]
    seconds = _seconds_per_round(run)
    if planned <= done:
        words.append("done")
    elif not done and run.stages:
        stage, rows = list(run.stages.items())[-1]
        epochs = number(number_at(run.config, stage, "epochs"), 9)
        words.append(f"{stage.upper()}: pass {len(rows)} of {epochs}")
    elif not done:
        words.append("the first round is running")
    elif math.isfinite(seconds):
        words.append(f"{number(seconds, 3)} s a round")
        if left := _time_left(run):
            words.append(f"{left} left")
    return RoundProgress(done / planned if planned > 0 else math.nan, words)


def _cards(run: WatchedRun) -> Cards:
    recent, seconds = run.rounds_read.recent, _seconds_per_round(run)
    spent = seconds * len(recent)
    games = sum(_finite(number_at(row, "environment", "episodes")) for row in recent)
    samples = sum(
        _finite(number_at(row, "models", model, "samples"))
        for row in recent
        for model in row["models"]
    )
    episodes, failed = (run.total("environment", key) for key in ("episodes", "failed_episodes"))
    return Cards([
        ("Time left", _time_left(run) or MISSING, f"{number(seconds, 3)} s a round"),
        *report.measured_cards(run),
        ("Throughput", f"{number(games / spent if spent else math.nan, 3)} games/s",
         f"{number(samples / spent if spent else math.nan, 3)} samples/s · {episodes:.0f} games so "
         f"far, {failed:.0f} of them failed"),
    ])  # fmt: skip


def _completed(run: WatchedRun) -> int:
    recent = run.rounds_read.recent
    return int(recent[-1]["round"]) + 1 if recent else 0


def _seconds_per_round(run: WatchedRun) -> float:
    """Return the mean duration of the newest rounds; NaN if it is unknown."""
    recent = run.rounds_read.recent
    total = 0.0
    for row in recent:
        spent = row.get("seconds") or {}
        both = spent.get("rollout", 0) + spent.get("train", 0)
        total += max(0.0, both - spent.get("overlap", 0))
    return total / len(recent) if total else math.nan


def _time_left(run: WatchedRun) -> str:
    """Format the remaining time as hours:minutes:seconds; "" if it is unknown."""
    seconds = _seconds_per_round(run) * (number_at(run.config, "rounds") - _completed(run))
    if not math.isfinite(seconds) or seconds <= 0:
        return ""
    return str(timedelta(seconds=round(seconds))) if seconds < 1e9 else "decades"


def _running_episode(run: WatchedRun, trusted: bool) -> Iterator[Block]:
    episode = run.playing.episode
    if episode is None:
        return
    number = episode.extra.get("round")
    part = "Evaluation" if number is None else f"Round {number}"
    state = "finished" if run.playing.finished else f"turn {len(episode.turns) + 1} is running"
    yield Text(f"{part}: {state}. The newest turns are first.")
    yield from report.sample_episode(episode, run, trusted=trusted, drawn=newest)


def _finite(value: float) -> float:
    return value if math.isfinite(value) else 0.0
