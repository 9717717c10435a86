"""Report of one run: headline, curves, tables and sample episodes on one page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from srl_agents.episode import read_jsonl
from srl_agents.errors import EpisodeError
from srl_envs.errors import UntrustedError
from srl_extensions.pages.document import (
    Block,
    Card,
    Cards,
    Document,
    Figure,
    Line,
    Notes,
    PageSection,
    Panel,
    Table,
    Text,
    table,
    write_page,
)
from srl_extensions.pages.run_folder import RecordedRun, edges, load, number_at
from srl_extensions.pages.transcript import transcript, view_of
from srl_train.metrics.tables import MISSING, number, share

READING_CHARTS = (
    "Charts: lines are running means over a tenth of the rounds (at least three), with a band of "
    "one standard deviation. The number in a legend is the last value, or the value under the "
    "pointer."
)
REWARDS = (
    "Raw reward: reward of the environment. Shaped reward: reward after the mode's reward shaping, "
    "which is used for training. Both are means over agents and steps."
)
LOSSES = "stages.jsonl in the run's folder has all other metrics of TRL."
PERFORMANCE = (
    "Rewards are raw rewards per agent and step. Start and end are means over the first and the "
    "last tenth of the rounds; cooperation and parse failures are those at the end."
)
UPDATES = (
    "Weight change: L2 norm of the change of the trainable weights in a round; rounds without an "
    "update are skipped. Staleness: number of updates of the model since a sample was drawn."
)

NOT_DRAWN = frozenset(
    {"raw_reward", "raw_return", "shaped_return", "parse_failures", "cooperation_rate",
     "updated", "updates", "weight_change", "samples", "steps_left_out"}
)  # fmt: skip
"""Keys of a model's row that are not drawn as training metrics."""
SHARES = frozenset({"clip_ratio", "frac_reward_zero_std"})
"""Training metrics that are drawn in percent."""
FOR_THE_OPTIMUM = ("cooperative", "hierarchical")
"""Modes that train for the mean of all rewards, which the optimum maximizes."""
SIGNIFICANT = 2.0
"""Number of standard errors above which a difference is reported as a change."""

Cell = Callable[[str], str | float]
"""Function from the name of a row to a cell of this row."""


def write_report(run_dir: Path, out: Path | None = None, *, trusted: bool = False) -> Path:
    """Write the report of a run as an HTML file.

    Args:
        run_dir: Folder of the run. The report names missing parts, and samples that are damaged.
        out: File to write; `run_dir`/report.html by default.
        trusted: True to load code and files that the configuration names.

    Returns:
        Path of the report.

    Raises:
        RunFolderError: If `run_dir` has no run or damaged files, or `out` cannot be written.
        MetricsError: If a file is not regular, or has a damaged row, except an incomplete last one.
    """
    run = load(run_dir)
    notes = [Notes("This report is incomplete", run.notes)] if run.notes else []
    document = report(run, run.folder.resolve().name, notes, _samples(run, trusted))
    return write_page(document, run_dir / "report.html" if out is None else out)


def report(
    run: RecordedRun, name: str, top: Sequence[Block], samples: Sequence[Block] = ()
) -> Document:
    """Return the report of a run with its `name`, without sections that have no content.

    The blocks of `top` follow title and warnings; those of `samples` are the section of sample
    episodes.
    """
    returns = {"raw_return": "Raw return per episode", "shaped_return": "Shaped return per episode"}
    shares = {"cooperation_rate": "Cooperation rate", "parse_failures": "Parse failures"}
    rates = charts_by_model(run, shares, percent=True)
    tables = [one for one in [_evaluations(run)] if one.rows]
    models: list[Block] = [_performance(run), Text(PERFORMANCE)] if run.models else []
    settings: list[Block] = [Text(run.config_text, "listing")] if run.config_text else []
    sections = [
        PageSection("Training on data", figure(stage_charts(run), LOSSES)),
        PageSection("Reward", [*figure(reward_charts(run), REWARDS), *tables]),
        PageSection("Models", [*figure(charts_by_model(run, returns)), *models]),
        PageSection("Cooperation and parse failures", figure(rates)),
        PageSection("Updates", figure(update_charts(run), UPDATES)),
        PageSection("Training metrics", figure(metric_charts(run))),
        PageSection("Sample episodes", samples),
        PageSection("Configuration", settings),
    ]
    warned = [Notes("Warnings of the run", run.warnings)] if run.warnings else []
    return Document(
        title(run),
        f"mode {run.mode} · updates {run.strategy} · seed {run.seed} · run {name}",
        [*warned, *top, Cards(cards(run)), Text(READING_CHARTS)],
        [part for part in sections if part.blocks],
    )


def terminal_summary(run: RecordedRun) -> str:
    """Return warnings, headline, `cards`, evaluations and models' rewards of a run as text."""
    tables = [_evaluations(run), _performance(run)]
    lines = [f"warning: {line}" for line in run.warnings]
    lines.append(title(run))
    lines += [f"  {name}: {value} ({more})" for name, value, more in cards(run)]
    for one in tables:
        lines += ["", *one.lines()] if one.rows else []
    return "\n".join(lines)


def title(run: RecordedRun) -> str:
    """Return a headline, such as "maze_v0: 1 model learning" or "maze_v0: not trained yet"."""
    stages = " and ".join(stage.upper() for stage in run.stages)
    count = len(run.models)
    head = f"{run.environment}: {count} model{'' if count == 1 else 's'}"
    if run.rows:
        after = f" after {stages}" if stages else ""
        return f"{head} learning{' together' if count > 1 else ''}{after}"
    return f"{head}, {stages}" if stages else f"{run.environment}: not trained yet"


def _samples(run: RecordedRun, trusted: bool) -> list[Block]:
    found: list[Block] = []
    files, view = run.sample_files, None
    for path in dict.fromkeys(files[:1] + files[-1:]):
        found.append(Text(path.name, "heading"))
        try:
            first = next(iter(read_jsonl(path)), None)
            if first is not None:
                view = view_of(first, run.environment, run.options, trusted=trusted)
        except EpisodeError as error:
            found.append(Text(f"{path.name} cannot be read: {error}", "bad"))
            continue
        except UntrustedError as error:
            found.append(Text(f"Observations are shown as numbers: {error}."))
        if first is not None:
            found.append(transcript(first, view))
    return found


# Headline


def cards(run: RecordedRun) -> list[Card]:
    """Return (label, value, text) of reward, optimum, cooperation, parse failures, failed episodes.

    Cards without a value, or without failed episodes, are left out. "Gap to the optimum closed" is
    (after - before) / (optimum - before) of the evaluations' rewards, at most 1. This card requires
    a mode of FOR_THE_OPTIMUM, and a significant gap and rise.
    """
    label, who = "Raw reward per agent and step", ""
    if _change(run, "learners_raw_reward", repr) not in (MISSING, _change(run, "raw_reward", repr)):
        label, who = "Raw reward per step of the agents that learn", "learners_"
    before, after = (run.evaluated(when, f"{who}raw_reward") for when in ("before", "after"))
    errors = [run.evaluated(when, f"{who}standard_error") for when in ("before", "after")]
    error, moved, learned = math.hypot(*errors), after - before, math.nan
    ahead = run.baselines.get("optimum", math.nan) - before
    rose = ahead > SIGNIFICANT * errors[0] and moved > SIGNIFICANT * error
    if rose and run.mode in FOR_THE_OPTIMUM:
        learned = min(moved / ahead, 1.0)  # A larger value is noise.
    how = "first → last rounds"
    if math.isfinite(moved):
        how = "evaluations before → after training"
        how += f" · change {number(moved)}, standard error {number(error, 2)}"
        how += ", may be chance" if abs(moved) <= SIGNIFICANT * error else ""
    known = " · ".join(f"{name} {number(value)}" for name, value in run.baselines.items())
    found = [
        (label, _change(run, f"{who}raw_reward", number), how),
        ("Gap to the optimum closed", share(learned), known),
        ("Cooperation rate", _change(run, "cooperation_rate", share), "start → end of training"),
        ("Parse failures", _change(run, "parse_failures", share),
         "share of answers without a legal action"),
    ]  # fmt: skip
    if failed := run.total("environment", "failed_episodes"):
        played = run.total("environment", "episodes")
        found.append(("Failed episodes", f"{failed:.0f} of {played:.0f}", "not used in training"))
    return [card for card in found if card[1] != MISSING]


def _change(run: RecordedRun, key: str, written: Callable[[float], str]) -> str:
    both = run.evaluated("before", key), run.evaluated("after", key)
    if not all(map(math.isfinite, both)):
        both = run.edges(key)
    return " → ".join(map(written, both)) if any(map(math.isfinite, both)) else MISSING


# Tables


def _performance(run: RecordedRun) -> Table:
    last = run.rows[-1]["models"] if run.rows else {}

    def edge(key: str, end: int) -> Callable[[str], float]:
        return lambda model: edges(run.series("models", model, key))[end]

    return _table_of("Reward of each model", "model", run.models, {
        "agents": lambda m: ", ".join(last.get(m, {}).get("seats") or ()),
        "start": edge("raw_reward", 0),
        "end": edge("raw_reward", 1),
        "eval before": lambda m: run.evaluated("before", "per_model", m),
        "eval after": lambda m: run.evaluated("after", "per_model", m),
        "cooperation": lambda m: share(edge("cooperation_rate", 1)(m)),
        "parse failures": lambda m: share(edge("parse_failures", 1)(m)),
    })  # fmt: skip


def _evaluations(run: RecordedRun) -> Table:
    order = ["before", *(f"after_{stage}" for stage in run.stages), "after"]
    names = [name for name in order if name in (run.summary.get("evaluation") or {})]
    return _table_of("Evaluations", "training", names, {
        "raw reward": lambda when: run.evaluated(when, "raw_reward"),
        "standard error": lambda when: number(run.evaluated(when, "standard_error"), 2),
        "success": lambda when: share(run.evaluated(when, "success")),
        "cooperation": lambda when: share(run.evaluated(when, "cooperation_rate")),
        "parse failures": lambda when: share(run.evaluated(when, "parse_failures")),
        "episodes": lambda when: run.evaluated(when, "episodes"),
    })  # fmt: skip


def _table_of(title: str, kind: str, names: Sequence[str], columns: Mapping[str, Cell]) -> Table:
    rows = []
    for name in names:
        cells = [of(name) for of in columns.values()]
        rows.append((name, *(cell if isinstance(cell, str) else number(cell) for cell in cells)))
    return table([kind, *columns], rows, title)


# Charts


def stage_charts(run: RecordedRun) -> list[Panel]:
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


def reward_charts(run: RecordedRun) -> list[Panel]:
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


def charts_by_model(
    run: RecordedRun, titles: Mapping[str, str], percent: bool = False
) -> list[Panel]:
    """Return a panel per key of `titles` (key of a model's row -> title), a line per model."""
    return [Panel(title, _of_models(run, key), percent=percent) for key, title in titles.items()]


def update_charts(run: RecordedRun) -> list[Panel]:
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


def metric_charts(run: RecordedRun) -> list[Panel]:
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
