"""Report of one run: headline, curves, tables and sample episodes on one page."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import chain
from pathlib import Path

from srl_agents.episode import Episode, read_jsonl
from srl_agents.errors import EpisodeError
from srl_envs.errors import UntrustedError
from srl_envs.text import TextView
from srl_extensions.pages import figures
from srl_extensions.pages.document import (
    Block,
    Card,
    Cards,
    Document,
    Notes,
    PageSection,
    Panel,
    Raster,
    Table,
    Text,
    Transcript,
    table,
    write_page,
)
from srl_extensions.pages.figures import smoothing_window
from srl_extensions.pages.headline import FOR_THE_OPTIMUM, ends, headline, in_words
from srl_extensions.pages.run_folder import RecordedRun, edges, load, mean, number_at
from srl_extensions.pages.transcript import transcript, view_of
from srl_train.metrics.tables import MISSING, aligned, number, share

Cell = Callable[[str], str | float]
"""Function from a row's name to a cell of the row."""


def write_report(run_dir: Path, out: Path | None = None, *, trusted: bool = False) -> Path:
    """Write the report of a run, and return its path.

    Args:
        run_dir: Folder of the run. Missing files are named in the report.
        out: File to write; `run_dir`/report.html by default.
        trusted: If True, code and files named in the configuration may be loaded.

    Raises:
        RunFolderError: If there is no run in `run_dir` or its files are damaged.
    """
    document = report(load(run_dir), trusted=trusted)
    return write_page(document, run_dir / "report.html" if out is None else out)


def report(run: RecordedRun, *, trusted: bool = False) -> Document:
    """Return the report as a document."""
    parts = [
        *sections(run),
        PageSection("Sample episodes", _samples(run, trusted)),
        PageSection("Configuration", configuration(run)),
    ]
    return Document(
        title(run),
        f"{settings_line(run)} · {run.folder.resolve().name}",
        [*notes(run), Cards([*measured_cards(run), *_size_cards(run)])],
        [part for part in parts if part.blocks],
    )


def sections(run: RecordedRun) -> list[PageSection]:
    """Return the sections with figures and tables."""
    return [
        PageSection("Learned from data", _stages(run)),
        PageSection("Reward", _reward(run)),
        PageSection("The models", _models(run)),
        PageSection("Cooperation and parse failures", _behavior(run)),
        PageSection("Updates", _updates(run)),
        PageSection("Metrics of the learners", _curves(run, figures.learning(run))),
    ]


def terminal_summary(run: RecordedRun) -> str:
    """Return the headline of a run and its main tables as lines of text."""
    tables = [_evaluations(run), _performance(run), _environments(run)]
    shown = [aligned([one.headers, *one.rows]) for one in tables if one is not None]
    return "\n".join([*in_words(run), *chain.from_iterable(shown)])


def title(run: RecordedRun) -> str:
    """Return the environment, the number of models and the stages of a run."""
    stages = " and ".join(stage.upper() for stage in run.stages)
    models = f"{run.environment}: {len(run.models)} model{'' if len(run.models) == 1 else 's'}"
    if run.rows:
        return f"{models} learning together{f' after {stages}' if stages else ''}"
    return f"{models}, {stages}" if stages else f"{run.environment}: nothing learned yet"


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


def notes(run: RecordedRun) -> list[Notes]:
    """Return boxes with the warnings of the run and with its missing files."""
    boxes = (("Warnings of the run.", run.warnings), ("This report is partial.", run.notes))
    return [Notes(name, lines) for name, lines in boxes if lines]


def measured_cards(run: RecordedRun) -> list[Card]:
    """Return cards with the reward, the way to the optimum, cooperation and parse failures."""
    head = headline(run)
    evaluated = math.isfinite(head.after - head.before)
    how = "evaluated before → after" if evaluated else "first → last rounds"
    more = f"per agent and step · standard error {number(head.error, 2)}" if evaluated else ""
    known = " · ".join(f"{name} {number(value)}" for name, value in run.baselines.items())
    optimum = ("Way to the optimum", MISSING, known or "no baselines")
    if known and run.mode not in FOR_THE_OPTIMUM:
        optimum = (*optimum[:2], f"{known} · not what this mode trains for")
    elif math.isfinite(head.learned):
        error = f"{known} · standard error {share(head.learned_error)}"
        optimum = ("Of the way to the optimum, learned", share(head.learned), error)
    elif known:
        optimum = ("Between uniform play and optimum", share(head.position), known)
    return [
        (f"Raw reward, {how}", " → ".join(map(number, ends(run, "raw_reward"))), more),
        optimum,
        ("Cooperation rate", " → ".join(map(share, ends(run, "cooperation_rate"))), ""),
        ("Parse failures", " → ".join(map(share, ends(run, "parse_failures"))), "of all answers"),
    ]


def _size_cards(run: RecordedRun) -> list[Card]:
    passes = ", ".join(f"{stage.upper()} {len(rows)}" for stage, rows in run.stages.items())
    failed, played = (run.total("environment", key) for key in ("failed_episodes", "episodes"))
    seconds = number_at(run.summary, "seconds")
    rounds = [
        ("Failed episodes", f"{failed:.0f} of {played:.0f}", "kept out of training"),
        ("Rounds", str(len(run.rows)), f"{number(seconds)} s in all"),
    ]
    return [*([("Passes over data", passes, "")] if passes else ()), *(rounds if run.rows else ())]


def sample_label(name: str) -> str:
    """Return 'Round 12' for round_00012.jsonl."""
    kind, _, place = name.removesuffix(".jsonl").rpartition("_")
    return f"{kind} {int(place)}".capitalize() if kind and place.isdecimal() else name


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


def _curves(run: RecordedRun, drawings: Sequence[Panel | Raster], caption: str = "") -> list[Block]:
    return figures.figure(drawings, f"{caption} {how_drawn(len(run.rows))}".strip())


def _headed(heading: str, found: Table | None) -> list[Block]:
    return [] if found is None else [Text(heading, "heading"), found]


def _samples(run: RecordedRun, trusted: bool) -> list[Block]:
    """Return the first episode of the first and of the last file."""
    found: list[Block] = []
    files = run.sample_files
    for path in dict.fromkeys(files[:1] + files[-1:]):
        found.append(Text(sample_label(path.name), "heading"))
        try:
            first = next(iter(read_jsonl(path)), None)
            found += sample_episode(first, run, trusted=trusted) if first else ()
        except EpisodeError as error:
            found.append(Text(f"{path.name} cannot be read: {error}", "bad"))
    return found


def _stages(run: RecordedRun) -> list[Block]:
    caption = (
        "Losses: running mean over the steps, with its last value after the name; bands: the "
        "standard deviation of those steps. All other metrics of TRL are in stages.jsonl."
    )
    return figures.figure(figures.stages(run), caption)


def _reward(run: RecordedRun) -> list[Block]:
    caption = (
        "Raw: the environment's own, mean per agent and step. Shaped: after the mode's mixing."
    )
    several = _curves(run, figures.environments(run), "Rounds that played the environment.")
    return [
        *_curves(run, figures.reward(run), caption),
        *_headed("Evaluations", _evaluations(run)),
        *([Text("Each environment", "heading"), *several] if several else ()),
        *_headed("Environments, evaluated", _environments(run)),
        *_headed("Winners", _winners(run)),
    ]


def _models(run: RecordedRun) -> list[Block]:
    titles = {"raw_return": "Raw return per episode", "shaped_return": "Shaped return per episode"}
    means = "Start and end are means over a tenth of the rounds; rewards are per step."
    shown: list[Block] = [_performance(run), Text(means)] if run.models else []
    return [*_curves(run, figures.per_model(run, titles)), *shown]


def _behavior(run: RecordedRun) -> list[Block]:
    titles = {"cooperation_rate": "Cooperation rate", "parse_failures": "Parse failures per answer"}
    return _curves(run, figures.per_model(run, titles, percent=True))


def _updates(run: RecordedRun) -> list[Block]:
    if not run.rows:
        return []
    weights = (
        "Weight change: L2 norm of a round's change of the trainable weights; only rounds that "
        "changed a model's weights are joined."
    )
    staleness = "Staleness: updates of the model since a sample was drawn."
    return [
        *figures.figure(figures.updates(run), "Filled: updated in that round. Grey: not."),
        *_curves(run, figures.versions(run), staleness),
        *_curves(run, figures.weights(run), weights),
        _update_table(run),
    ]


# Tables


def _performance(run: RecordedRun) -> Table:
    last = run.rows[-1]["models"] if run.rows else {}

    def edge(key: str, end: int) -> Callable[[str], float]:
        return lambda model: edges(run.series("models", model, key))[end]

    return _table_of("model", run.models, {
        "agents, last round": lambda m: ", ".join(last.get(m, {}).get("seats") or ()),
        "raw reward, start": edge("raw_reward", 0),
        "end": edge("raw_reward", 1),
        "evaluated before": lambda m: run.evaluated("before", "per_model", m),
        "after": lambda m: run.evaluated("after", "per_model", m),
        "cooperation, end": lambda m: share(edge("cooperation_rate", 1)(m)),
        "parse failures, end": lambda m: share(edge("parse_failures", 1)(m)),
    })  # fmt: skip


def _evaluations(run: RecordedRun) -> Table | None:
    found = run.summary.get("evaluation") or {}
    order = ["before", *(f"after_{stage}" for stage in run.stages), "after"]
    names = [name.replace("_", " ") for name in order if name in found]

    def of(key: str, written: Callable[[float], str] = number) -> Cell:
        return lambda name: written(run.evaluated(name.replace(" ", "_"), key))

    columns = {
        "raw reward": of("raw_reward"),
        "standard error": of("standard_error", lambda error: number(error, 2)),
        "success": of("success", share),
        "cooperation": of("cooperation_rate", share),
        "parse failures": of("parse_failures", share),
        "games": of("episodes", lambda count: number(count, 8)),
    }
    return _table_of("evaluated", names, columns) if names else None


def _environments(run: RecordedRun) -> Table | None:
    labels = sorted(run.names("by_environment"))

    def of(when: str, key: str, written: Callable[[float], str] = number) -> Cell:
        return lambda label: written(run.evaluated(when, "by_environment", label, key))

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
    rows = []
    names = sorted(run.names("environment", "winners"))
    for part, own in parts.items():
        count: Counter[str] = Counter()
        for row in own:
            count.update(row["environment"].get("winners") or {})
        if all_won := count.total():
            shares = (f"{count[name]:.0f} ({share(count[name] / all_won)})" for name in names)
            rows.append((part, *shares))
    return table(["rounds", *names], rows) if rows else None


def _update_table(run: RecordedRun) -> Table:
    def most_stale(model: str) -> float:
        ages = run.series("models", model, "staleness", "max")
        return max(filter(math.isfinite, ages), default=math.nan)

    def last(key: str) -> Cell:
        return lambda model: number(run.series("models", model, key)[-1], 8)

    def total(key: str, unit: float = 1) -> Cell:
        return lambda model: number(run.total("models", model, key) / unit, 8)

    sent = {"MB sent": total("bytes_sent", 1e6), "received": total("bytes_received", 1e6)}
    counted = any("communicated_bytes" in row for row in run.rows)
    return _table_of("model", run.models, {
        "rounds updated": total("updated"),
        "updates": last("updates"),
        "samples": total("samples"),
        "weight change, sum": lambda m: run.total("models", m, "weight_change"),
        "staleness, mean": lambda m: mean(run.series("models", m, "staleness", "mean")),
        "most": most_stale,
        "samples dropped as stale": last("samples_dropped_stale"),
        **(sent if counted else {}),
    })  # fmt: skip


def _table_of(kind: str, names: Sequence[str], columns: Mapping[str, Cell]) -> Table:
    """Return a table with a row per name; a cell that is a number gets four digits."""
    rows = []
    for name in names:
        cells = [of(name) for of in columns.values()]
        rows.append((name, *(cell if isinstance(cell, str) else number(cell) for cell in cells)))
    return table([kind, *columns], rows)
