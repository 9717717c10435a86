"""Figures of a report: which metrics are plotted in which figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import accumulate
from pathlib import Path

from srl_agents.evaluation.bootstrap import mean_interval
from srl_extensions.pages import plots
from srl_train.metrics.activity import PLAY
from srl_train.metrics.document import (
    Block,
    Figure,
    Line,
    Panel,
    Raster,
    running_means,
    smoothing_window,
)
from srl_train.metrics.run_folder import Run, load, number_at
from srl_train.metrics.seeds import Entry

SHOWN_ELSEWHERE = frozenset(
    {"raw_reward", "raw_return", "shaped_return", "parse_failures", "cooperation_rate",
     "updated", "updates", "weight_change", "samples", "steps_left_out",
     "samples_dropped_stale", "bytes_sent", "bytes_received"}
)  # fmt: skip
"""Of a model's row, what has a figure or table of its own; all else is the learner's."""

_OF_STAGES = {
    "mean_token_accuracy": ("tokens predicted right", True),
    "rewards/accuracies": ("pairs told apart", True),
    "rewards/margins": ("margin of the chosen answer's reward", False),
}
"""TRL's name of what a pass of a stage is drawn by -> (title, whether it is a share)."""

SLOTS = 240
"""Parts of a run's time in which a lane is busy or idle."""

TITLES = {
    "grad_norm": "Gradient norm",
    "clip_ratio": "Share of clipped tokens",
    "kl": "Divergence from the starting model (KL)",
    "sampler_divergence": "Sampler and trainer: mean difference in log-probability",
    "sampler_divergence_max": "Sampler and trainer: largest difference in log-probability",
    "sampler_beyond_cap": "Sampler and trainer: share of tokens with a ratio above the cap",
    "sampler_kl": "Divergence of the trainer from the sampler (KL)",
    "reward_std": "Standard deviation of rewards in a group",
    "frac_reward_zero_std": "Share of groups with all rewards equal",
}


def stages(run: Run) -> list[Panel]:
    """The loss of every stage step by step, and what else TRL measured pass by pass."""
    panels = []
    for stage, rows in run.stages.items():
        losses = [
            _listed(model, [row["models"].get(model, {}).get("losses") for row in rows])
            for model in run.models
        ]
        panels.append(_smooth(f"{stage.upper()}: loss of each step", losses, across="step"))
        passes = range(1, len(rows) + 1)
        for name, (title, percent) in _OF_STAGES.items():
            lines = [
                Line(model, passes, [number_at(row, "models", model, name) for row in rows])
                for model in run.models
            ]
            title = f"{stage.upper()}: {title}"
            panels.append(Panel(title, lines, percent=percent, across="pass"))
    return panels


def reward(run: Run) -> list[Panel]:
    """The environment's raw reward between its baselines, and the shaped reward beside it."""

    def line(key: str, label: str) -> list[Line]:
        return [Line(label, run.rounds, run.series("environment", key))]

    guides = list(run.baselines.items())
    return [
        _smooth("Raw reward per agent and step", line("raw_reward", "raw"), guides=guides),
        _smooth("Shaped reward, what was trained on", line("shaped_reward", "shaped")),
        _smooth("Share of agents that succeeded", line("success", "success"), percent=True),
    ]


def environments(run: Run) -> list[Panel]:
    """What was earned and solved in each environment, where a run has several."""
    labels = sorted(run.names("by_environment"))

    def lines(key: str) -> list[Line]:
        # A round need not play all of them: only those that did are joined.
        every = [Line(label, run.rounds, run.series("by_environment", label, key))
                 for label in labels]  # fmt: skip
        return [_where(line, math.isfinite) for line in every]

    return [
        _smooth("Return per episode, by environment", lines("raw_return")),
        _smooth("Share that succeeded, by environment", lines("success"), percent=True),
        _smooth("Unread answers, by environment", lines("parse_failures"), percent=True),
    ]


def returns(run: Run) -> list[Panel]:
    """Every model's return per episode, raw and shaped."""
    return [
        _smooth("Raw return per episode", _per_model(run, "raw_return")),
        _smooth("Shaped return per episode", _per_model(run, "shaped_return")),
    ]


def behaviour(run: Run) -> list[Panel]:
    """How often models cooperated, and how often their answers could not be read."""
    return [
        _smooth("Cooperation rate", _per_model(run, "cooperation_rate"), percent=True),
        _smooth("Parse failures per answer", _per_model(run, "parse_failures"), percent=True),
    ]


def updates(run: Run) -> list[Raster]:
    """A raster of who updated when."""
    rows = []
    for model in run.models:
        updated = zip(run.rounds, run.series("models", model, "updated"), strict=True)
        rows.append((model, [number for number, share in updated if share > 0]))
    return [Raster("Rounds in which each model's weights were updated", rows, run.rounds)]


def activity(run: Run) -> list[Raster]:
    """Who was busy when, where play went ahead: a lane for play, and one for each model."""
    if not run.activity:
        return []
    began = min(span.start for span in run.activity)
    slot = (max(span.end for span in run.activity) - began) / SLOTS
    lanes = [
        (who, sorted({
            number
            for span in run.activity
            if span.who == who
            for number in range(
                int((span.start - began) / slot),
                min(SLOTS, math.ceil((span.end - began) / slot)),
            )
        }))
        for who in (PLAY, *run.models)
    ]  # fmt: skip
    return [Raster(f"Who was busy when, by {slot:.2g} s", lanes, range(SLOTS), "slot")]


def weights(run: Run) -> list[Panel]:
    """Return panels with the weight change of each model per update and in total."""

    def moved(line: Line) -> Line:
        # Rounds that changed no weights are left out, so that the others are joined.
        return _where(line, lambda y: 0 < y < math.inf)

    changes = [
        moved(Line(model, run.rounds, change_per_update(run, model))) for model in run.models
    ]
    totals = [moved(line) for line in _per_model(run, "weight_change")]
    travelled = [Line(line.label, line.x, list(accumulate(line.y))) for line in totals]
    return [
        _smooth("Weight change of each update, L2 norm", changes),
        Panel("Length of the way travelled so far", travelled),
    ]


def change_per_update(run: Run, model: str) -> list[float]:
    """Return the weight change of each row, per update if the row combines several rounds."""
    both = (run.series("models", model, key) for key in ("weight_change", "updated"))
    return [change / max(1.0, updated) for change, updated in zip(*both, strict=True)]


def versions(run: Run) -> list[Panel]:
    """How old the samples were that models learned from, and how far their versions have come."""
    return [
        _smooth(
            "Staleness: updates since the samples were drawn", _per_model(run, "staleness", "mean")
        ),
        Panel("Version: updates so far", _per_model(run, "updates")),
    ]


def learning(run: Run) -> list[Panel | Raster]:
    """Whatever else the learners measured: loss, gradient norm, entropy and so on."""
    names = dict.fromkeys(
        key
        for model in run.models
        for key in run.names("models", model)
        if key not in SHOWN_ELSEWHERE
    )
    return measured(
        [
            _smooth(TITLES.get(name, name.replace("_", " ").capitalize()), _per_model(run, name))
            for name in names
        ]
        + [
            _smooth(f"The mode's {key}", [Line(key, run.rounds, run.series("mode_state", key))])
            for key in run.names("mode_state")
        ]
    )


FIGURES: dict[str, Callable[[Run], Sequence[Panel | Raster]]] = {
    "stages": stages,
    "reward": reward,
    "environments": environments,
    "returns": returns,
    "behaviour": behaviour,
    "updates": updates,
    "activity": activity,
    "versions": versions,
    "weights": weights,
    "learning": learning,
}


def figure(drawings: Sequence[Panel | Raster], caption: str) -> list[Block]:
    """Those drawings in which something was measured, as a figure; nothing where none is."""
    found = measured(drawings)
    return [Figure(found, caption)] if found else []


def measured(drawings: Sequence[Panel | Raster]) -> list[Panel | Raster]:
    """Those drawings in which something was measured."""
    return [
        one
        for one in drawings
        if (
            one.rounds
            if isinstance(one, Raster)
            else any(math.isfinite(y) for line in one.lines for y in line.y)
        )
    ]


def save_plots(run_dir: Path, folder: Path) -> list[Path]:
    """Write each of the run's figures that has something to show as a PNG file into `folder`.

    Raises PlotsError without matplotlib, RunFolderError without a run.
    """
    run = load(run_dir)
    return [
        plots.save_png(drawings, folder / f"{name}.png")
        for name, of in FIGURES.items()
        if (drawings := measured(of(run)))
    ]


def side_by_side(entries: Sequence[Entry]) -> list[Panel]:
    """Raw reward and cooperation rate of several entries of a comparison in the same axes."""
    guides = dict.fromkeys(
        item for entry in entries for run in entry.runs for item in run.baselines.items()
    )
    rewards = [_of_entry(entry, "raw_reward") for entry in entries]
    cooperation = [_of_entry(entry, "cooperation_rate") for entry in entries]
    return [
        _smooth("Raw reward per agent and step", rewards, guides=list(guides)),
        _smooth("Cooperation rate", cooperation, percent=True),
    ]


def _smooth(
    title: str,
    lines: Sequence[Line],
    guides: Sequence[tuple[str, float]] = (),
    percent: bool = False,
    across: str = "round",
) -> Panel:
    window = smoothing_window(max((len(line.y) for line in lines), default=0))
    return Panel(title, lines, guides, percent, window, across)


def _of_entry(entry: Entry, key: str) -> Line:
    """One run's numbers; of several seeds the mean of their running means, and its interval."""
    if len(entry.runs) == 1:
        return Line(entry.label, entry.runs[0].rounds, entry.runs[0].series("environment", key))
    shared = sorted(set.intersection(*(set(run.rounds) for run in entry.runs)))
    smooth = []
    for run in entry.runs:
        known = dict(zip(run.rounds, run.series("environment", key), strict=True))
        values = [known[number] for number in shared]
        smooth.append(running_means(values, smoothing_window(len(values))))
    found = [mean_interval(values) for values in zip(*smooth, strict=True)]
    middle, low, high = zip(*found, strict=True) if found else ((), (), ())
    return Line(entry.label, shared, middle, low, high)


def _listed(label: str, lists: Sequence[object]) -> Line:
    """The numbers of all the lists, counted from 1; what is no list has none."""
    values = [number_at(one) for found in lists if isinstance(found, list) for one in found]
    return Line(label, range(1, len(values) + 1), values)


def _per_model(run: Run, *keys: str) -> list[Line]:
    return [Line(model, run.rounds, run.series("models", model, *keys)) for model in run.models]


def _where(line: Line, keep: Callable[[float], bool]) -> Line:
    """Only the points whose height is to be kept, which are joined."""
    points = [(x, y) for x, y in zip(line.x, line.y, strict=True) if keep(y)]
    return Line(line.label, [x for x, _ in points], [y for _, y in points])
