"""Which of a run's numbers stand in which figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from srl_agents.evaluation.bootstrap import mean_interval
from srl_train.metrics.report import plots
from srl_train.metrics.report.plots import Line, Panel, Raster, RasterRow
from srl_train.metrics.run_folder import Run, load, number_at
from srl_train.metrics.seeds import Entry

SHOWN_ELSEWHERE = frozenset(
    {"raw_reward", "raw_return", "shaped_return", "parse_failures", "cooperation_rate",
     "updated", "updates", "weight_change", "samples"}
)  # fmt: skip
"""Of a model's row, what has a figure or table of its own; all else is the learner's."""

_OF_STAGES = {
    "mean_token_accuracy": ("tokens predicted right", True),
    "rewards/accuracies": ("pairs told apart", True),
    "rewards/margins": ("margin of the chosen answer's reward", False),
}
"""TRL's name of what a pass of a stage is drawn by -> (title, whether it is a share)."""

TITLES = {
    "grad_norm": "Gradient norm",
    "clip_ratio": "Share of clipped tokens",
    "kl": "Divergence from the starting model (KL)",
    "reward_std": "Standard deviation of rewards in a group",
    "frac_reward_zero_std": "Share of groups with all rewards equal",
}


def stages(run: Run) -> list[Panel]:
    """The loss of every stage step by step, and what else TRL measured pass by pass."""
    panels = []
    for stage, rows in run.stages.items():
        losses = {
            model: [
                number_at({"loss": loss}, "loss")
                for row in rows
                for loss in _listed(row["models"].get(model, {}).get("losses"))
            ]
            for model in run.models
        }
        lines = [Line(model, range(1, len(y) + 1), y) for model, y in losses.items()]
        panels.append(Panel(f"{stage.upper()}: loss of each step", lines, across="step"))
        passes = range(1, len(rows) + 1)
        for name, (title, percent) in _OF_STAGES.items():
            lines = [
                Line(model, passes, [number_at(row, "models", model, name) for row in rows])
                for model in run.models
            ]
            title = f"{stage.upper()}: {title}"
            panels.append(Panel(title, lines, percent=percent, across="pass", smooth=False))
    return panels


def reward(run: Run) -> list[Panel]:
    """The environment's raw reward between its baselines, and the shaped reward beside it."""
    return [
        Panel(
            "Raw reward per seat and step",
            [_of_environment(run, "raw_reward", "raw")],
            guides=list(run.baselines.items()),
        ),
        Panel(
            "Shaped reward, what was trained on", [_of_environment(run, "shaped_reward", "shaped")]
        ),
        Panel(
            "Share of seats that succeeded",
            [_of_environment(run, "success", "success")],
            percent=True,
        ),
    ]


def environments(run: Run) -> list[Panel]:
    """What was earned and solved in each environment, where a run has several."""
    labels = sorted({label for row in run.rows for label in row.get("by_environment") or ()})

    def lines(key: str) -> list[Line]:
        # A round need not play all of them: only those that did are joined.
        found = []
        for label in labels:
            series = run.series("by_environment", label, key)
            points = [(x, y) for x, y in zip(run.rounds, series, strict=True) if math.isfinite(y)]
            found.append(Line(label, [x for x, _ in points], [y for _, y in points]))
        return found

    return [
        Panel("Return per episode, by environment", lines("raw_return")),
        Panel("Share that succeeded, by environment", lines("success"), percent=True),
        Panel("Unread answers, by environment", lines("parse_failures"), percent=True),
    ]


def returns(run: Run) -> list[Panel]:
    """Every model's return per episode, raw and shaped."""
    return [
        Panel("Raw return per episode", _per_model(run, "raw_return")),
        Panel("Shaped return per episode", _per_model(run, "shaped_return")),
    ]


def behaviour(run: Run) -> list[Panel]:
    """How often models cooperated, and how often their answers could not be read."""
    return [
        Panel("Cooperation rate", _per_model(run, "cooperation_rate"), percent=True),
        Panel("Parse failures per answer", _per_model(run, "parse_failures"), percent=True),
    ]


def updates(run: Run) -> list[Raster]:
    """A raster of who updated when."""
    rows = [
        RasterRow(
            model,
            [row["round"] for row in run.rows if row["models"].get(model, {}).get("updated")],
        )
        for model in run.models
    ]
    raster = Raster("Rounds in which each model's weights were updated", rows, run.rounds)
    return [raster] if run.rows else []


def weights(run: Run) -> list[Panel]:
    """How far every model's weights moved."""
    change = [_where_updated(line) for line in _per_model(run, "weight_change")]
    return [
        Panel("Weight change of each update, L2 norm", change),
        Panel(
            "Length of the way travelled so far",
            [Line(line.label, line.x, _running_sum(line.y)) for line in change],
            smooth=False,
        ),
    ]


def learning(run: Run) -> list[Panel]:
    """Whatever else the learners measured: loss, gradient norm, entropy and so on."""
    names = dict.fromkeys(
        key
        for row in run.rows
        for model in row["models"].values()
        for key, value in model.items()
        if key not in SHOWN_ELSEWHERE and isinstance(value, float)
    )
    panels = [
        Panel(TITLES.get(name, name.replace("_", " ").capitalize()), _per_model(run, name))
        for name in names
    ]
    states = dict.fromkeys(key for row in run.rows for key in row.get("mode_state") or ())
    panels += [
        Panel(f"The mode's {key}", [Line(key, run.rounds, run.series("mode_state", key))])
        for key in states
    ]
    return panels


FIGURES: dict[str, Callable[[Run], Sequence[Panel | Raster]]] = {
    "stages": stages,
    "reward": reward,
    "environments": environments,
    "returns": returns,
    "behaviour": behaviour,
    "updates": updates,
    "weights": weights,
    "learning": learning,
}


def save_plots(run_dir: Path, folder: Path) -> list[Path]:
    """Write each of the run's figures that has something to show as a PNG file into `folder`.

    Raises PlotsError without matplotlib, RunFolderError without a run.
    """
    run = load(run_dir)
    drawn = {name: changing(of(run))[0] for name, of in FIGURES.items()}
    return [
        plots.save_png(plots.draw(drawings), folder / f"{name}.png")
        for name, drawings in drawn.items()
        if drawings
    ]


def side_by_side(entries: Sequence[Entry]) -> list[Panel]:
    """Raw reward and cooperation rate of several entries of a comparison in the same axes."""
    shared = dict.fromkeys(
        item for entry in entries for run in entry.runs for item in run.baselines.items()
    )
    return [
        Panel(
            "Raw reward per seat and step",
            [_of_entry(entry, "raw_reward") for entry in entries],
            guides=list(shared),
        ),
        Panel(
            "Cooperation rate",
            [_of_entry(entry, "cooperation_rate") for entry in entries],
            percent=True,
        ),
    ]


def changing(drawings: Sequence[Panel | Raster]) -> tuple[list[Panel | Raster], str]:
    """(those in which something changes, a sentence on those in which nothing ever does); what
    was never measured is in neither."""
    drawn: list[Panel | Raster] = []
    still = []
    for one in drawings:
        if isinstance(one, Raster):
            if all(len(row.rounds) == len(one.rounds) for row in one.rows):
                still.append(f"{one.title}: all")
            else:
                drawn.append(one)
            continue
        measured = {
            line.label: list(dict.fromkeys(filter(math.isfinite, line.y))) for line in one.lines
        }
        if any(len(values) > 1 for values in measured.values()):
            drawn.append(one)
        elif told := [(label, values[0]) for label, values in measured.items() if values]:
            still.append(f"{one.title}: {_at_rest(told, one.percent)}")
    return drawn, f"Not drawn, for it never changed: {'; '.join(still)}." if still else ""


def _at_rest(told: Sequence[tuple[str, float]], percent: bool) -> str:
    written = [(label, plots.in_figures(value, percent=percent)) for label, value in told]
    if len({value for _, value in written}) == 1:
        return written[0][1]
    return ", ".join(f"{label} {value}" for label, value in written)


def _of_entry(entry: Entry, key: str) -> Line:
    """One run's numbers; of several seeds the mean of their running means, and its interval."""
    if len(entry.runs) == 1:
        return _of_environment(entry.runs[0], key, entry.label)
    shared = sorted(set.intersection(*(set(run.rounds) for run in entry.runs)))
    smooth = []
    for run in entry.runs:
        known = dict(zip(run.rounds, run.series("environment", key), strict=True))
        values = [known[number] for number in shared]
        smooth.append(plots.running_means(values, plots.smoothing_window(len(values))))
    found = [mean_interval(values) for values in zip(*smooth, strict=True)]
    middle, low, high = zip(*found, strict=True) if found else ((), (), ())
    return Line(entry.label, shared, middle, low, high)


def _listed(value: object) -> Sequence[object]:
    return value if isinstance(value, list) else ()


def _of_environment(run: Run, key: str, label: str) -> Line:
    return Line(label, run.rounds, run.series("environment", key))


def _per_model(run: Run, key: str) -> list[Line]:
    return [Line(model, run.rounds, run.series("models", model, key)) for model in run.models]


def _where_updated(line: Line) -> Line:
    """Only the rounds in which weights changed: between them is nothing to join with a line."""
    points = [(x, y) for x, y in zip(line.x, line.y, strict=True) if y > 0]
    return Line(line.label, [x for x, _ in points], [y for _, y in points])


def _running_sum(values: Sequence[float]) -> list[float]:
    total, sums = 0.0, []
    for value in values:
        total += value if math.isfinite(value) else 0.0
        sums.append(total)
    return sums
