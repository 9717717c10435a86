"""Which of a run's numbers stand in which figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from srl_train.metrics import plots
from srl_train.metrics.plots import Line, Panel, RasterRow
from srl_train.metrics.run_folder import Run, load

SHOWN_ELSEWHERE = frozenset(
    {"raw_reward", "raw_return", "shaped_return", "parse_failures", "cooperation_rate",
     "updated", "updates", "weight_change", "samples"}
)  # fmt: skip
"""Of a model's row, what has a figure or table of its own; all else is the learner's."""

TITLES = {
    "grad_norm": "Gradient norm",
    "clip_ratio": "Share of clipped tokens",
    "kl": "Divergence from the starting model (KL)",
    "reward_std": "Standard deviation of rewards in a group",
    "frac_reward_zero_std": "Share of groups with all rewards equal",
}


def reward(run: Run) -> Any | None:
    """The environment's raw reward between its baselines, and the shaped reward beside it."""
    panels = [
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
    return _figure(panels)


def environments(run: Run) -> Any | None:
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

    return _figure(
        [
            Panel("Return per episode, by environment", lines("raw_return")),
            Panel("Share that succeeded, by environment", lines("success"), percent=True),
            Panel("Unread answers, by environment", lines("parse_failures"), percent=True),
        ]
    )


def returns(run: Run) -> Any | None:
    """Every model's return per episode, raw and shaped."""
    return _figure(
        [
            Panel("Raw return per episode", _per_model(run, "raw_return")),
            Panel("Shaped return per episode", _per_model(run, "shaped_return")),
        ]
    )


def behaviour(run: Run) -> Any | None:
    """How often models cooperated, and how often their answers could not be read."""
    return _figure(
        [
            Panel("Cooperation rate", _per_model(run, "cooperation_rate"), percent=True),
            Panel("Parse failures per answer", _per_model(run, "parse_failures"), percent=True),
        ]
    )


def updates(run: Run) -> Any | None:
    """A raster of who updated when."""
    if not run.rows:
        return None
    rows = [
        RasterRow(
            model,
            [row["round"] for row in run.rows if row["models"].get(model, {}).get("updated")],
        )
        for model in run.models
    ]
    return plots.raster(rows, run.rounds, "Rounds in which each model's weights were updated")


def weights(run: Run) -> Any | None:
    """How far every model's weights moved."""
    change = [_where_updated(line) for line in _per_model(run, "weight_change")]
    return _figure(
        [
            Panel("Weight change of each update, L2 norm", change),
            Panel(
                "Length of the way travelled so far",
                [Line(line.label, line.x, _running_sum(line.y)) for line in change],
                smooth=False,
            ),
        ]
    )


def learning(run: Run) -> Any | None:
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
    return _figure(panels)


FIGURES: dict[str, Callable[[Run], Any | None]] = {
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
    drawn = {name: draw(run) for name, draw in FIGURES.items()}
    return [
        plots.save_png(figure, folder / f"{name}.png")
        for name, figure in drawn.items()
        if figure is not None
    ]


def side_by_side(runs: Sequence[tuple[str, Run]]) -> Any | None:
    """Raw reward and cooperation rate of several labelled runs in the same axes."""
    shared = dict.fromkeys(item for _, run in runs for item in run.baselines.items())
    return _figure(
        [
            Panel(
                "Raw reward per seat and step",
                [_of_environment(run, "raw_reward", label) for label, run in runs],
                guides=list(shared),
            ),
            Panel(
                "Cooperation rate",
                [_of_environment(run, "cooperation_rate", label) for label, run in runs],
                percent=True,
            ),
        ]
    )


def _figure(panels: Sequence[Panel]) -> Any | None:
    full = [
        panel
        for panel in panels
        if any(math.isfinite(value) for line in panel.lines for value in line.y)
    ]
    return plots.curves(full) if full else None


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
