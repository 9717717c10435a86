"""Documents of runs under way: the report's own figures, with progress, pace and games."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from datetime import timedelta
from pathlib import Path

from srl_train.metrics.live.watched_run import WatchedRun
from srl_train.metrics.report import build, figures
from srl_train.metrics.report.document import (
    MISSING,
    Block,
    Cards,
    Document,
    Games,
    Progress,
    RunLine,
    Runs,
    Section,
    Text,
    number,
    table,
)
from srl_train.metrics.report.headline import edges
from srl_train.metrics.report.transcript import newest
from srl_train.metrics.run_folder import number_at, sample_label
from srl_train.metrics.seeds import Entry

MOST_COMPARED = 12
"""Runs in one set of axes: the newest."""


def of_run(
    name: str, run: WatchedRun, graphs: Sequence[Block] = (), *, trusted: bool = False
) -> Document:
    """A run as far as it goes, with interaction graphs where they are measured already; `trusted`
    as in srl_train.metrics.report.build.report."""
    parts = [
        Section("Reward", [
            *_curves(run, "reward", "Mean per agent and step; shaped is after the mode's mixing."),
            *_curves(run, "environments"),
        ]),
        Section("The game under way", _playing(run, trusted)),
        Section("Sample games", _games(name, run)),
        Section("The models", _models(run)),
        Section("Who updated when", _updates(run)),
        Section("How they played", _curves(run, "behaviour")),
        Section("Who did what to whom", graphs),
        Section("What the learners measured", _curves(run, "learning")),
        Section("Learned from data", figures.figure(figures.stages(run), "Loss of each step.")),
        Section("Configuration", build.configuration(run)),
    ]  # fmt: skip
    notes = build.notes(run, partial="What cannot be read.")
    return Document(
        f"{run.environment}: {_models_so_far(run)}",
        f"{name} · mode {run.mode} · updates {run.strategy} · seed {run.seed}",
        [*notes, progress(run), _cards(run)],
        [part for part in parts if part.blocks],
    )


def gone(name: str) -> Document:
    """What there is to say of a run whose folder is gone, or not there yet."""
    return Document(name, "", [Text("Its folder holds no run now. If one comes, it appears here.")])


def overview(runs: Mapping[str, WatchedRun], given: Sequence[Path], left_out: int) -> Document:
    """Several runs side by side."""
    where = ", ".join(map(str, given))
    if not runs:
        waiting = f"No run is in {where} yet. The first to begin appears here."
        return Document("No runs yet", where, [Text(waiting)])
    lines = [RunLine(name, _about(run), progress(run)) for name, run in runs.items()]
    compared = [Entry(name, (run,)) for name, run in list(runs.items())[-MOST_COMPARED:]]
    more = [Text(f"{left_out} older runs are not shown.")] if left_out else []
    return Document(
        f"{len(runs)} runs" if len(runs) > 1 else "One run",
        where,
        [Runs(lines[::-1]), *more],
        [Section("Side by side", figures.figure(
            figures.side_by_side(compared), "The number after a name is its last value."
        ))],
    )  # fmt: skip


def progress(run: WatchedRun) -> Progress:
    """Rounds, pace, and time left."""
    done, planned = run.done, run.planned
    words = [f"round {done} of {planned:.0f}" if math.isfinite(planned) else f"round {done}"]
    left = planned - done
    if left <= 0:
        words.append("done")
    elif not done:
        words.append(_before_the_rounds(run))
    elif math.isfinite(seconds := run.pace.seconds):
        words.append(f"{number(seconds, 3)} s a round")
        if told := _time_left(run):
            words.append(f"{told} left")
    return Progress(done / planned if planned > 0 else math.nan, words)


def _time_left(run: WatchedRun) -> str:
    """As hours:minutes:seconds, by the pace of the last rounds; empty where nobody knows."""
    seconds = run.pace.seconds * (run.planned - run.done)
    if not math.isfinite(seconds) or seconds <= 0:
        return ""
    return str(timedelta(seconds=round(seconds))) if seconds < 1e9 else "decades"


def _before_the_rounds(run: WatchedRun) -> str:
    """What goes on before the first round is over."""
    if run.stages:
        stage, rows = list(run.stages.items())[-1]
        planned = number_at(run.config, stage, "epochs")
        return f"{stage.upper()}: pass {len(rows)} of {number(planned, 9)}"
    return "the first is under way"


def _about(run: WatchedRun) -> str:
    reward = run.series("environment", "raw_reward")
    first, last = edges(reward)
    told = f" · raw reward {number(first)} → {number(last)}" if reward else ""
    return f"{run.environment} · {_models_so_far(run)} · {run.mode}, {run.strategy}{told}"


def _models_so_far(run: WatchedRun) -> str:
    """Return the number of models, which rows name first when a round or a pass is complete."""
    return f"{len(run.models)} models" if run.models else "no round is complete"


def _cards(run: WatchedRun) -> Cards:
    pace, total = run.pace, run.so_far
    return Cards([
        ("Time left", _time_left(run) or MISSING, f"{number(pace.seconds, 3)} s a round"),
        *build.measured(run),
        ("Throughput", f"{number(pace.games, 3)} games/s",
         f"{number(pace.samples, 3)} samples/s · {total.episodes:.0f} games so far, "
         f"{total.failed:.0f} of them failed"),
    ])  # fmt: skip


def _curves(run: WatchedRun, name: str, caption: str = "") -> list[Block]:
    stride = run.so_far.columns.stride
    thinned = f"Each point is the mean of {stride} rounds." if stride > 1 else ""
    return build.curves(run, name, f"{caption} {thinned}".strip())


def _playing(run: WatchedRun, trusted: bool) -> list[Block]:
    if run.playing is None:
        return []
    number = run.playing.extra.get("round")
    played_in = "Evaluation" if number is None else f"Round {number}"
    state = "over" if run.playing_is_over else f"turn {len(run.playing.turns) + 1} is under way"
    shown = build.sample_episode(run.playing, run, trusted=trusted, drawn=newest)
    return [Text(f"{played_in}: {state}. The newest turns stand first."), *shown]


def _games(name: str, run: WatchedRun) -> list[Block]:
    files = [(path.name, sample_label(path)) for path in run.files]
    return [Games(name, files)] if files else []


def _models(run: WatchedRun) -> list[Block]:
    if not run.rows:
        return []
    headers = ("model", "agents", "version", "staleness, mean", "most", "dropped as stale",
               "samples", "raw return", "weight change")  # fmt: skip
    rows = [(model, *_state(run.rows[-1]["models"].get(model) or {})) for model in run.models]
    return [
        Text(f"After round {run.done - 1}", "heading"),
        table(headers, rows),
        Text("Version: how often the weights were updated. Staleness: how many updates of its "
             "model ago a sample was drawn. All but version and dropped: of the last round."),
        *_curves(run, "returns"),
    ]  # fmt: skip


def _state(row: Mapping[str, object]) -> Iterator[str]:
    seats = row.get("seats")
    yield ", ".join(map(str, seats)) if isinstance(seats, list) else MISSING
    yield number(number_at(row, "updates"), 9)
    yield number(number_at(row, "staleness", "mean"))
    yield number(number_at(row, "staleness", "max"), 9)
    yield number(number_at(row, "samples_dropped_stale"), 9)
    yield number(number_at(row, "samples"), 9)
    yield number(number_at(row, "raw_return"))
    yield number(number_at(row, "weight_change"))


def _updates(run: WatchedRun) -> list[Block]:
    weights = figures.weights(run)[:1]  # the way travelled is a sum over all rounds
    return [
        *figures.figure(figures.updates(run), "Filled: updated in that round. Grey: not."),
        *figures.figure(figures.activity(run),
                        "Filled: rounds were played, or the model learned or waited to."),
        *_curves(run, "versions"),
        *figures.figure(weights, "Weight change: L2 norm of what an update added."),
    ]  # fmt: skip
