"""Figures of a report: the metrics that are drawn in each figure."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate

from srl_extensions.pages.document import Block, Figure, Line, Panel, Raster
from srl_extensions.pages.run_folder import RecordedRun, number_at

SHOWN_ELSEWHERE = frozenset(
    {"raw_reward", "raw_return", "shaped_return", "parse_failures", "cooperation_rate",
     "updated", "updates", "weight_change", "samples", "steps_left_out",
     "samples_dropped_stale", "bytes_sent", "bytes_received"}
)  # fmt: skip
"""Keys of a model's row that have another figure or table. All other keys are the learner's."""
TITLES = {
    "grad_norm": "Gradient norm",
    "clip_ratio": "Share of clipped tokens",
    "kl": "Divergence from the starting model (KL)",
    "sampler_divergence": "Sampler and trainer: mean difference in log-probability",
    "sampler_divergence_max": "Sampler and trainer: largest difference in log-probability",
    "reward_std": "Standard deviation of rewards in a group",
    "frac_reward_zero_std": "Share of groups with all rewards equal",
}


def stages(run: RecordedRun) -> list[Panel]:
    """Return the loss of every stage by step."""
    panels = []
    for stage, rows in run.stages.items():
        losses = []
        for model in run.models:
            lists = [row["models"].get(model, {}).get("losses") for row in rows]
            values = [number_at(loss) for found in lists if isinstance(found, list)
                      for loss in found]  # fmt: skip
            losses.append(Line(model, range(1, len(values) + 1), values))
        panels.append(_smooth(f"{stage.upper()}: loss of each step", losses, across="step"))
    return panels


def reward(run: RecordedRun) -> list[Panel]:
    """Return the raw reward between its baselines, the shaped reward and the success."""

    def line(key: str, label: str) -> list[Line]:
        return [Line(label, run.rounds, run.series("environment", key))]

    guides = list(run.baselines.items())
    return [
        _smooth("Raw reward per agent and step", line("raw_reward", "raw"), guides),
        _smooth("Shaped reward, what was trained on", line("shaped_reward", "shaped")),
        _smooth("Share of agents that succeeded", line("success", "success"), percent=True),
    ]


def environments(run: RecordedRun) -> list[Panel]:
    """Return the return, success and parse failures by environment."""
    titles = {
        "raw_return": "Return per episode, by environment",
        "success": "Share that succeeded, by environment",
        "parse_failures": "Unread answers, by environment",
    }

    def lines(key: str) -> list[Line]:
        # A round need not play all environments. The rounds that did are joined.
        every = (Line(label, run.rounds, run.series("by_environment", label, key))
                 for label in sorted(run.names("by_environment")))  # fmt: skip
        return [_where(line, math.isfinite) for line in every]

    return [
        _smooth(title, lines(key), percent=key != "raw_return") for key, title in titles.items()
    ]


def per_model(run: RecordedRun, titles: Mapping[str, str], percent: bool = False) -> list[Panel]:
    """Return a panel for each key in a model's row, with a line per model."""
    return [_smooth(title, _of_models(run, key), percent=percent) for key, title in titles.items()]


def updates(run: RecordedRun) -> list[Raster]:
    """Return the rounds in which each model was updated."""
    rows = []
    for model in run.models:
        updated = zip(run.rounds, run.series("models", model, "updated"), strict=True)
        rows.append((model, [number for number, share in updated if share > 0]))
    return [Raster("Rounds in which each model's weights were updated", rows, run.rounds)]


def weights(run: RecordedRun) -> list[Panel]:
    """Return the weight change of each model per update and in total."""

    def moved(line: Line) -> Line:
        # Rounds that changed no weights are left out, so that the others are joined.
        return _where(line, lambda y: 0 < y < math.inf)

    changes = [moved(line) for line in _of_models(run, "weight_change")]
    travelled = [Line(line.label, line.x, list(accumulate(line.y))) for line in changes]
    return [
        _smooth("Weight change of each update, L2 norm", changes),
        Panel("Length of the way travelled so far", travelled),
    ]


def versions(run: RecordedRun) -> list[Panel]:
    """Return the staleness of the samples, and the number of updates of each model."""
    staleness = _of_models(run, "staleness", "mean")
    return [
        _smooth("Staleness: updates since the samples were drawn", staleness),
        Panel("Version: updates so far", _of_models(run, "updates")),
    ]


def learning(run: RecordedRun) -> list[Panel]:
    """Return the other metrics of the learners, such as loss, gradient norm and entropy."""
    names = dict.fromkeys(key for model in run.models for key in run.names("models", model))
    titles = {name: TITLES.get(name, name.replace("_", " ").capitalize())
              for name in names if name not in SHOWN_ELSEWHERE}  # fmt: skip
    state = [
        _smooth(f"The mode's {key}", [Line(key, run.rounds, run.series("mode_state", key))])
        for key in run.names("mode_state")
    ]
    return [*per_model(run, titles), *state]


def figure(drawings: Sequence[Panel | Raster], caption: str) -> list[Block]:
    """Return a figure of the drawings with a measured value, or nothing."""
    found = [
        one
        for one in drawings
        if (
            one.rounds
            if isinstance(one, Raster)
            else any(math.isfinite(y) for line in one.lines for y in line.y)
        )
    ]
    return [Figure(found, caption)] if found else []


def side_by_side(runs: Mapping[str, RecordedRun]) -> list[Panel]:
    """Return raw reward and cooperation rate of labeled runs in the same axes."""

    def lines(key: str) -> list[Line]:
        return [
            Line(label, run.rounds, run.series("environment", key)) for label, run in runs.items()
        ]

    guides = dict.fromkeys(item for run in runs.values() for item in run.baselines.items())
    return [
        _smooth("Raw reward per agent and step", lines("raw_reward"), list(guides)),
        _smooth("Cooperation rate", lines("cooperation_rate"), percent=True),
    ]


def smoothing_window(values: int) -> int:
    """Return the number of values in a line's running mean."""
    return max(1, min(3, values // 2), values // 10)


def _smooth(
    title: str,
    lines: Sequence[Line],
    guides: Sequence[tuple[str, float]] = (),
    percent: bool = False,
    across: str = "round",
) -> Panel:
    window = smoothing_window(max((len(line.y) for line in lines), default=0))
    return Panel(title, lines, guides, percent, window, across)


def _of_models(run: RecordedRun, *keys: str) -> list[Line]:
    return [Line(model, run.rounds, run.series("models", model, *keys)) for model in run.models]


def _where(line: Line, keep: Callable[[float], bool]) -> Line:
    points = [(x, y) for x, y in zip(line.x, line.y, strict=True) if keep(y)]
    return Line(line.label, [x for x, _ in points], [y for _, y in points])
