"""Report of one run: headline, curves, tables and sample episodes on one page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from srl_agents.episode import Episode
from srl_envs.errors import UntrustedError
from srl_envs.text import TextView
from srl_extensions.pages import figures
from srl_extensions.pages.interactions import interactions
from srl_train.metrics import page
from srl_train.metrics.document import (
    MISSING,
    Block,
    Card,
    Cards,
    Details,
    Document,
    Notes,
    PageSection,
    Table,
    Text,
    Transcript,
    as_lines,
    number,
    share,
    smoothing_window,
    table,
)
from srl_train.metrics.headline import FOR_THE_OPTIMUM, edges, ends, headline, in_words, mean
from srl_train.metrics.run_folder import RecordedRun, load, number_at, sample_label
from srl_train.metrics.transcript import transcript, view_of

MOST_NAMED = 12
"""Number of updates without effect that are listed by name."""
Cell = Callable[[str], str | float]
"""Function from a row's name to a cell of the row."""


def write_report(run_dir: Path, out: Path | None = None, *, trusted: bool = False) -> Path:
    """Write the report of a run, and return its path.

    Args:
        run_dir: Folder of the run. Missing files are named in the report.
        out: File to write; `run_dir`/report.html by default.
        trusted: Whether code and files named in the configuration may be loaded.

    Raises:
        RunFolderError: If there is no run in `run_dir` or its files are damaged.
    """
    document = report(load(run_dir), trusted=trusted)
    return page.write(document, run_dir / "report.html" if out is None else out)


def report(run: RecordedRun, *, trusted: bool = False) -> Document:
    """Return the report as a document."""
    episodes: list[Block] = []
    for sample in run.samples:
        episodes.append(Text(sample_label(sample.path).capitalize(), "heading"))
        if sample.episodes:
            episodes += sample_episode(sample.episodes[0], run, trusted=trusted)
        else:
            episodes.append(Text("The file is empty."))
    per_round = [Details("Weight change per round", [_weight_changes(run)])] if run.rows else []
    parts = [
        *sections(run, per_round),
        PageSection("Who did what to whom", interactions(run, trusted=trusted)),
        PageSection("Sample episodes", episodes),
        PageSection("Configuration", configuration(run)),
    ]
    return Document(
        title(run),
        f"{settings_line(run)} · {run.folder.resolve().name}",
        [*notes(run), Cards([*measured_cards(run), *_size_cards(run)])],
        [part for part in parts if part.blocks],
    )


def sections(run: RecordedRun, per_round: Sequence[Block] = ()) -> list[PageSection]:
    """Return the sections with figures and tables; `per_round` is added to those about updates."""
    return [
        PageSection("Learned from data", _stages(run)),
        PageSection("Reward", _reward(run)),
        PageSection("The models", _models(run)),
        PageSection("How they played", _behaviour(run)),
        PageSection("Who updated when", [*_updates(run), *per_round]),
        PageSection("What the learners measured", curves(run, "learning")),
    ]


def terminal_summary(run: RecordedRun) -> str:
    """Return the headline of a run and its main tables as lines of text."""
    tables = [_stage_table(run) if run.stages else None, _evaluations(run), _performance(run),
              _environments(run)]  # fmt: skip
    return "\n".join([*in_words(run), *as_lines(filter(None, tables))])


def title(run: RecordedRun) -> str:
    """Return the environment, the number of models and the stages of a run."""
    configured = number_at(run.config, "models", "count")
    count = len(run.models) or (int(configured) if math.isfinite(configured) else 0)
    models = f"{count} model{'' if count == 1 else 's'}"
    stages = " and ".join(stage.upper() for stage in run.stages)
    if run.rows:
        after = f" after {stages}" if stages else ""
        return f"{run.environment}: {models} learning together{after}"
    return f"{run.environment}: {models}, {stages or 'nothing learned yet'}"


def settings_line(run: RecordedRun) -> str:
    """Return the mode, the update strategy and the seed of a run."""
    return f"mode {run.mode} · updates {run.strategy} · seed {run.seed}"


def how_drawn(rounds: int) -> str:
    """Return the part of a caption that explains the lines of a figure."""
    window = smoothing_window(rounds)
    if window == 1:
        return "The number after a name is its last value."
    return (
        f"Lines: running mean over {window} rounds, with its last value after the name; "
        "bands: the standard deviation of those rounds."
    )


def notes(
    run: RecordedRun, label: str = "", partial: str = "This report is partial."
) -> list[Notes]:
    """Return boxes with the warnings of the run and with its missing files."""
    before = f"{label}: " if label else ""
    boxes = (("Warnings of the run.", run.warnings), (partial, run.notes))
    return [Notes(before + name, lines) for name, lines in boxes if lines]


def curves(run: RecordedRun, name: str, caption: str = "") -> list[Block]:
    """Return the figure of that name with its caption."""
    drawn = f"{caption} {how_drawn(len(run.rounds))}".strip()
    return figures.figure(figures.FIGURES[name](run), drawn)


def measured_cards(run: RecordedRun) -> list[Card]:
    """Return cards with the reward, the way to the optimum, cooperation and parse failures."""
    head = headline(run)
    in_training = f"{number(head.start)} → {number(head.end)}" if run.rows else ""
    reward = ("Raw reward, first → last rounds", in_training or MISSING, "per agent and step")
    if math.isfinite(head.after):
        error = number_at(run.summary, "evaluation", "after", "standard_error")
        more = "per agent and step"
        more += f" · standard error {number(error, 2)}" if math.isfinite(error) else ""
        more += f" · in training {in_training}" if in_training else ""
        evaluated = f"{number(head.before)} → {number(head.after)}"
        reward = ("Raw reward, evaluated before → after", evaluated, more)
    return [
        reward,
        _optimum_card(run),
        ("Cooperation rate", " → ".join(map(share, ends(run, "cooperation_rate"))), ""),
        ("Parse failures", " → ".join(map(share, ends(run, "parse_failures"))), "of all answers"),
    ]


def _optimum_card(run: RecordedRun) -> Card:
    head = headline(run)
    known = " · ".join(f"{name} {number(value)}" for name, value in run.baselines.items())
    if not known:
        return "Way to the optimum", MISSING, "no baselines"
    if run.mode not in FOR_THE_OPTIMUM:
        return "Way to the optimum", MISSING, f"{known} · not what this mode trains for"
    learned, error = head.change.learned, head.change.learned_error
    if math.isfinite(learned):
        more = f"{known} · standard error {share(error)}"
        return "Of the way to the optimum, learned", share(min(learned, 1)), more
    evaluated_twice = math.isfinite(head.change.after - head.change.before)
    no_rise = " · no rise beyond chance" if evaluated_twice else ""
    return "Between uniform play and optimum", share(min(head.position, 1)), known + no_rise


def _size_cards(run: RecordedRun) -> list[Card]:
    cards: list[Card] = []
    if run.stages:
        passes = ", ".join(f"{stage.upper()} {len(rows)}" for stage, rows in run.stages.items())
        seconds = sum(number_at(row, "seconds") for rows in run.stages.values() for row in rows)
        cards.append(("Passes over data", passes, f"{seconds:.1f} s in all"))
    if run.rows or not run.stages:
        failed, played = (run.total("environment", key) for key in ("failed_episodes", "episodes"))
        seconds = sum(sum((row.get("seconds") or {}).values()) for row in run.rows)
        cards += [
            ("Failed episodes", f"{failed:.0f} of {played:.0f}", "kept out of training"),
            ("Rounds", str(len(run.rows)), f"{seconds:.1f} s in all"),
        ]
    return cards


def sample_episode(
    episode: Episode,
    run: RecordedRun,
    *,
    trusted: bool,
    drawn: Callable[[Episode, TextView | None], Transcript] = transcript,
) -> Sequence[Block]:
    """Return the transcript of an episode of the run, and a note on missing texts."""
    named = run.config.get("environment")
    options = (named.get("options") if isinstance(named, Mapping) else None) or {}
    try:
        view = view_of(episode, run.environment, options, trusted=trusted)
    except UntrustedError as error:
        why = Text(f"Agents are shown without their words: {error}.")
        return why, drawn(episode, None)
    return (drawn(episode, view),)


def configuration(run: RecordedRun) -> list[Block]:
    """Return the configuration of a run and the package versions."""
    versions = run.summary.get("versions")
    blocks: list[Block] = [Text(run.config_text, "listing")] if run.config_text else []
    if isinstance(versions, Mapping) and versions:
        blocks.append(table(["package", "version"], sorted(versions.items())))
    return blocks


# Sections


def _headed(heading: str, found: Table | None) -> list[Block]:
    return [] if found is None else [Text(heading, "heading"), found]


def _stages(run: RecordedRun) -> list[Block]:
    if not run.stages:
        return []
    return [
        *figures.figure(
            figures.stages(run),
            "Losses: running mean over the steps, with its last value after the name; bands: the "
            "standard deviation of those steps. All other metrics of TRL are in stages.jsonl.",
        ),
        _stage_table(run),
        Text(
            "Losses are means over a pass. Rewards are raw, per agent and step: of the episodes "
            "that were learned from, and of those parts of them that were kept."
        ),
    ]


def _reward(run: RecordedRun) -> list[Block]:
    several = curves(run, "environments", "Rounds that played the environment.")
    return [
        *curves(
            run, "reward", "Raw: the environment's own, mean per agent and step. "
            "Shaped: after the mode's mixing."
        ),
        *_headed("Evaluations", _evaluations(run)),
        *([Text("Each environment", "heading"), *several] if several else ()),
        *_headed("Environments, evaluated", _environments(run)),
        *_headed("Who won", _winners(run)),
    ]  # fmt: skip


def _models(run: RecordedRun) -> list[Block]:
    if not run.models:
        return []
    return [
        *curves(run, "returns"),
        _performance(run),
        Text(
            "Start and end are means over the first and the last tenth of the rounds; rewards are "
            "per step."
        ),
    ]


def _behaviour(run: RecordedRun) -> list[Block]:
    if not run.rows:
        return []
    rows = [
        (row["round"], played["failed_episodes"], played.get("episodes", ""))
        for row in run.rows
        if (played := row["environment"]).get("failed_episodes")
    ]
    failed = _headed("Failed episodes", table(["round", "failed", "of"], rows)) if rows else []
    return [*curves(run, "behaviour"), *(failed or [Text("No episode failed.")])]


def _updates(run: RecordedRun) -> list[Block]:
    if not run.rows:
        return []
    idle = [
        f"{model} in round {row['round']}"
        for row in run.rows
        for model, own in row["models"].items()
        if own.get("updated") and number_at(own, "weight_change") == 0
    ]
    more = f" and {len(idle) - MOST_NAMED} more" if len(idle) > MOST_NAMED else ""
    unmoved = f"Counted as updates although no weight changed: {', '.join(idle[:MOST_NAMED])}"
    return [
        *figures.figure(figures.updates(run), "Filled: updated in that round. Grey: not."),
        *curves(run, "versions"),
        *curves(run, "weights", "Only rounds that changed a model's weights are joined."),
        _update_table(run),
        Text(
            "Weight change: L2 norm of what a round added to the trainable weights. "
            "Staleness: how many updates of its model ago a sample was drawn."
        ),
        *([Text(f"{unmoved}{more}.", "bad")] if idle else ()),
    ]


# Tables


def _performance(run: RecordedRun) -> Table:
    last = run.rows[-1]["models"] if run.rows else {}

    def edge(key: str, end: int) -> Callable[[str], float]:
        return lambda model: edges(run.series("models", model, key))[end]

    def evaluated(when: str) -> Cell:
        return lambda model: number_at(run.summary, "evaluation", when, "per_model", model)

    return _table_of("model", run.models, {
        "agents, last round": lambda m: ", ".join(last.get(m, {}).get("seats") or ()),
        "raw reward, start": edge("raw_reward", 0),
        "end": edge("raw_reward", 1),
        "evaluated before": evaluated("before"),
        "after": evaluated("after"),
        "cooperation, end": lambda m: share(edge("cooperation_rate", 1)(m)),
        "parse failures, end": lambda m: share(edge("parse_failures", 1)(m)),
    })  # fmt: skip


def _stage_table(run: RecordedRun) -> Table:
    listed = run.summary.get("stages")
    known = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    reports = {str(one.get("stage")): one for one in known}
    rows = []
    for stage, passes in run.stages.items():
        games = [
            number(number_at(reports.get(stage), key), digits)
            for key, digits in (("games", 8), ("games_reward", 4), ("kept_reward", 4))
        ]
        for model in run.models:
            first, last = (row["models"].get(model, {}) for row in (passes[0], passes[-1]))
            sizes = [number(number_at(last, key), 8) for key in ("samples", "tokens")]
            losses = [number(number_at(row, "loss")) for row in (first, last)]
            rows.append((stage.upper(), model, len(passes), *games, *sizes, *losses))
    headers = (
        "stage", "model", "passes", "games", "reward in them", "in what was kept",
        "samples a pass", "tokens a pass", "loss, first pass", "last",
    )  # fmt: skip
    return table(headers, rows)


def _evaluations(run: RecordedRun) -> Table | None:
    found = run.summary.get("evaluation")
    if not isinstance(found, Mapping) or not found:
        return None
    order = ["before", *(f"after_{stage}" for stage in run.stages), "after"]

    def of(key: str, written: Callable[[float], str] = number) -> Cell:
        return lambda name: written(number_at(found, name.replace(" ", "_"), key))

    return _table_of("evaluated", [name.replace("_", " ") for name in order if name in found], {
        "raw reward": of("raw_reward"),
        "standard error": of("standard_error", lambda error: number(error, 2)),
        "success": of("success", share),
        "cooperation": of("cooperation_rate", share),
        "parse failures": of("parse_failures", share),
        "games": of("episodes", lambda count: number(count, 8)),
    })  # fmt: skip


def _environments(run: RecordedRun) -> Table | None:
    labels = sorted({label for row in run.rows for label in row.get("by_environment") or ()})

    def of(when: str, key: str, written: Callable[[float], str] = number) -> Cell:
        path = ("evaluation", when, "by_environment")
        return lambda label: written(number_at(run.summary, *path, label, key))

    columns: dict[str, Cell] = {
        "training episodes": lambda label: number(
            run.total("by_environment", label, "episodes"), 8
        ),
        "return, evaluated before": of("before", "raw_return"),
        "return, after": of("after", "raw_return"),
        "success, evaluated before": of("before", "success", share),
        "success, after": of("after", "success", share),
        "parse failures, after": of("after", "parse_failures", share),
    }
    return _table_of("environment", labels, columns) if labels else None


def _winners(run: RecordedRun) -> Table | None:
    tenth = max(1, len(run.rows) // 10)
    parts = {"first tenth": run.rows[:tenth], "last tenth": run.rows[-tenth:], "all": run.rows}
    counts = {part: games_won(rows) for part, rows in parts.items()}
    names = sorted(counts["all"])
    rows = [
        (part, *(f"{count[name]} ({share(count[name] / count.total())})" for name in names))
        for part, count in counts.items()
        if count.total()
    ]
    return table(["rounds", *names], rows) if names else None


def games_won(rows: Iterable[Mapping[str, Any]]) -> Counter[str]:
    """Return the number of episodes that each winner won."""
    count: Counter[str] = Counter()
    for row in rows:
        count.update(row["environment"].get("winners") or {})
    return count


def _update_table(run: RecordedRun) -> Table:
    def changes(model: str) -> list[float]:
        return [change for change in figures.change_per_update(run, model) if change > 0]

    def staleness(model: str, key: str) -> list[float]:
        return [age for age in run.series("models", model, "staleness", key) if math.isfinite(age)]

    def last(key: str) -> Cell:
        return lambda model: number(run.series("models", model, key)[-1], 8)

    def total(key: str, unit: float = 1, digits: int = 8) -> Cell:
        return lambda model: number(run.total("models", model, key) / unit, digits)

    exchanged = {
        "MB sent": total("bytes_sent", 1e6, 6),
        "received": total("bytes_received", 1e6, 6),
    }
    counted = any("communicated_bytes" in row for row in run.rows)
    return _table_of("model", run.models, {
        "rounds updated": total("updated"),
        "updates": last("updates"),
        "samples": total("samples"),
        "weight change, sum": lambda m: run.total("models", m, "weight_change"),
        "mean": lambda m: mean(changes(m)),
        "last": lambda m: (changes(m) or [math.nan])[-1],
        "staleness, mean": lambda m: mean(staleness(m, "mean")),
        "most": lambda m: max(staleness(m, "max"), default=math.nan),
        "samples dropped as stale": last("samples_dropped_stale"),
        **(exchanged if counted else {}),
    })  # fmt: skip


def _weight_changes(run: RecordedRun) -> Table:
    def change(own: Mapping[str, Any]) -> str:
        return number(number_at(own, "weight_change")) if own.get("updated") else ""

    rows = [
        (row["round"], *(change(row["models"].get(model, {})) for model in run.models))
        for row in run.rows
    ]
    return table(["round", *run.models], rows)


def _table_of(kind: str, names: Sequence[str], columns: Mapping[str, Cell]) -> Table:
    """Return a table with a row per name; a cell that is a number gets four digits."""
    rows = []
    for name in names:
        cells = [of(name) for of in columns.values()]
        rows.append((name, *(cell if isinstance(cell, str) else number(cell) for cell in cells)))
    return table([kind, *columns], rows)
