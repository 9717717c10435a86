"""Charts of the report and of the live page, made from the rows of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from srl_extensions.pages.document import Block, Figure, Line, Panel
from srl_extensions.pages.run_folder import RecordedRun, number_at

NOT_DRAWN = frozenset(
    {"raw_reward", "raw_return", "shaped_return", "parse_failures", "cooperation_rate",
     "updated", "updates", "weight_change", "samples", "steps_left_out"}
)  # fmt: skip
"""Keys of a model's row that are not drawn as training metrics."""
SHARES = frozenset({"clip_ratio", "frac_reward_zero_std"})
"""Training metrics that are drawn in percent."""


def stages(run: RecordedRun) -> list[Panel]:
    """Return a chart per stage of the loss at each optimizer step, with a line per model."""
    panels = []
    for stage, rows in run.stages.items():
        losses = []
        for model in run.models:
            lists = [row["models"].get(model, {}).get("losses") for row in rows]
            values = [number_at(loss) for found in lists if isinstance(found, list)
                      for loss in found]  # fmt: skip
            losses.append(Line(model, range(1, len(values) + 1), values))
        panels.append(Panel(f"{stage.upper()} loss", losses, across="step"))
    return panels


def reward(run: RecordedRun) -> list[Panel]:
    """Return charts of raw reward with its baselines, shaped reward, success rate and wins."""

    def line(key: str, label: str) -> list[Line]:
        return [Line(label, run.rounds, run.series("environment", key))]

    wins = [
        Line(name, run.rounds, [0.0 if math.isnan(count) else count for count in counts])
        for name in sorted(run.names("environment", "winners"))
        for counts in [run.series("environment", "winners", name)]
    ]
    guides = list(run.baselines.items())
    return [
        Panel("Raw reward per agent and step", line("raw_reward", "raw reward"), guides),
        Panel("Shaped reward per agent and step", line("shaped_reward", "shaped reward")),
        Panel("Success rate", line("success", "successful agents"), percent=True),
        Panel("Episodes won per round", wins),
    ]


def per_model(run: RecordedRun, titles: Mapping[str, str], percent: bool = False) -> list[Panel]:
    """Return a panel per key of `titles` (key of a model's row -> title), a line per model."""
    return [Panel(title, _of_models(run, key), percent=percent) for key, title in titles.items()]


def updates(run: RecordedRun) -> list[Panel]:
    """Return charts of weight changes (in rounds with an update) and sample staleness, by model."""
    changes = []
    for line in _of_models(run, "weight_change"):
        # Rounds without an update are left out, so that lines connect the updates.
        points = [(x, y) for x, y in zip(line.x, line.y, strict=True) if 0 < y < math.inf]
        changes.append(Line(line.label, [x for x, _ in points], [y for _, y in points]))
    return [
        Panel("Weight change per update (L2 norm)", changes),
        Panel("Mean staleness of the samples", _of_models(run, "staleness", "mean")),
    ]


def learning(run: RecordedRun) -> list[Panel]:
    """Return a chart of each training metric and of each value of the reward mode's state.

    A metric is a key of the models' rows that is not in NOT_DRAWN, with a line per model.
    """
    names = dict.fromkeys(key for model in run.models for key in run.names("models", model))
    metrics = [
        Panel(name, _of_models(run, name), percent=name in SHARES)
        for name in names
        if name not in NOT_DRAWN
    ]
    state = [
        Panel(f"State of the mode: {key}", [Line(key, run.rounds, run.series("mode_state", key))])
        for key in run.names("mode_state")
    ]
    return [*metrics, *state]


def figure(panels: Sequence[Panel], caption: str = "") -> list[Block]:
    """Return [figure] of the panels that have a finite value, or [] without any."""
    found = [one for one in panels if any(math.isfinite(y) for line in one.lines for y in line.y)]
    return [Figure(found, caption)] if found else []


def _of_models(run: RecordedRun, *keys: str) -> list[Line]:
    return [Line(model, run.rounds, run.series("models", model, *keys)) for model in run.models]
