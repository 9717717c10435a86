"""Report of one run: headline, curves, tables and sample episodes on one page."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from srl_agents.episode import Episode
from srl_envs.errors import UntrustedError
from srl_envs.text.view import TextView
from srl_train.metrics.report import figures, page, tables
from srl_train.metrics.report.document import (
    MISSING,
    Block,
    Card,
    Cards,
    Details,
    Document,
    Notes,
    Section,
    Table,
    Text,
    Transcript,
    number,
    share,
    smoothing_window,
    table,
)
from srl_train.metrics.report.headline import FOR_THE_OPTIMUM, Headline, ends, headline
from srl_train.metrics.report.interactions import interactions
from srl_train.metrics.report.transcript import transcript, view_of
from srl_train.metrics.run_folder import Run, Sample, load, number_at, sample_label


def write_report(run_dir: Path, out: Path | None = None, *, trusted: bool = False) -> Path:
    """Write the report of the run in `run_dir` to `out` (`run_dir`/report.html); returns its path.

    A run without rounds, summary or episodes gets a report that says what is missing. Code and
    files that its configuration names are touched only where it is `trusted`. Raises
    RunFolderError where there is no run or its records are damaged.
    """
    document = report(load(run_dir), trusted=trusted)
    return page.write(document, run_dir / "report.html" if out is None else out)


def report(run: Run, *, trusted: bool = False) -> Document:
    """The report as a document for the page."""
    parts = [
        Section("Learned from data", _stages(run)),
        Section("Reward", _reward(run)),
        Section("The models", _models(run)),
        Section("How they played", _behaviour(run)),
        Section("Who did what to whom", interactions(run, trusted=trusted)),
        Section("Who updated when", _updates(run)),
        Section("What the learners measured", curves(run, "learning")),
        Section("Sample episodes", _episodes(run, trusted)),
        Section("Configuration", configuration(run)),
    ]
    return Document(
        f"{run.environment}: {_who(run)}",
        f"mode {run.mode} · updates {run.strategy} · seed {run.seed} · {run.folder.resolve().name}",
        [*notes(run), _cards(run)],
        [part for part in parts if part.blocks],
    )


def _who(run: Run) -> str:
    """Which models learned, and from what beside their own rounds."""
    models = f"{len(run.models)} model{'' if len(run.models) == 1 else 's'}"
    stages = " and ".join(stage.upper() for stage in run.stages)
    if not run.rows:
        return f"{models}, {stages}" if stages else "nothing learned yet"
    return f"{models} learning together" + (f" after {stages}" if stages else "")


def how_drawn(rounds: int) -> str:
    """What the lines of a figure are, for its caption."""
    window = smoothing_window(rounds)
    if window == 1:
        return "The number after a name is its last value."
    return (
        f"Lines: running mean over {window} rounds, with its last value after the name; "
        "bands: the standard deviation of those rounds."
    )


def notes(run: Run, label: str = "", partial: str = "This report is partial.") -> list[Notes]:
    """What was warned of and what is missing."""
    told = (("Warnings of the run.", run.warnings), (partial, run.notes))
    before = f"{label}: " if label else ""
    return [Notes(before + title, lines) for title, lines in told if lines]


def curves(run: Run, name: str, caption: str = "") -> list[Block]:
    """A figure of the run, with what its lines are."""
    drawn_as = f"{caption} {how_drawn(len(run.rounds))}".strip()
    return figures.figure(figures.FIGURES[name](run), drawn_as)


def measured(run: Run) -> list[Card]:
    """How well the models do."""
    head = headline(run)
    in_training = f"{number(head.start)} → {number(head.end)}" if run.rows else ""
    cards = [("Raw reward, first → last rounds", in_training or MISSING, "per agent and step")]
    if math.isfinite(head.after):
        spread = number_at(run.summary, "evaluation", "after", "standard_error")
        more = "per agent and step"
        more += f" · standard error {number(spread, 2)}" if math.isfinite(spread) else ""
        more += f" · in training {in_training}" if in_training else ""
        evaluated = f"{number(head.before)} → {number(head.after)}"
        cards = [("Raw reward, evaluation before → after", evaluated, more)]
    return [
        *cards,
        _way(run, head),
        ("Cooperation rate", " → ".join(map(share, ends(run, "cooperation_rate"))), ""),
        ("Parse failures", " → ".join(map(share, ends(run, "parse_failures"))), "of all answers"),
    ]


def _cards(run: Run) -> Cards:
    cards = measured(run)
    if run.stages:
        passes = ", ".join(f"{stage.upper()} {len(rows)}" for stage, rows in run.stages.items())
        spent = sum(number_at(row, "seconds") for rows in run.stages.values() for row in rows)
        cards.append(("Passes over data", passes, f"{spent:.1f} s in all"))
    if run.rows or not run.stages:
        failed, played = (run.total("environment", k) for k in ("failed_episodes", "episodes"))
        seconds = sum(sum((row.get("seconds") or {}).values()) for row in run.rows)
        cards += [
            ("Failed episodes", f"{failed:.0f} of {played:.0f}", "kept out of training"),
            ("Rounds", str(len(run.rows)), f"{seconds:.1f} s in all"),
        ]
    return Cards(cards)


def _way(run: Run, head: Headline) -> Card:
    """How far the models came, of a game whose optimum is known and trained for."""
    known = " · ".join(f"{name} {number(value)}" for name, value in run.baselines.items())
    if not known:
        return "Way to the optimum", MISSING, "no baselines"
    if run.mode not in FOR_THE_OPTIMUM:
        return "Way to the optimum", MISSING, f"{known} · not what this mode trains for"
    learned, error = head.change.learned, head.change.learned_error
    if math.isfinite(learned):
        more = f"{known} · standard error {share(error)}"
        return "Of the way to the optimum, learned", share(min(learned, 1)), more
    unmoved = math.isfinite(head.change.after - head.change.before)
    what = " · no rise beyond chance" if unmoved else ""
    return "Between uniform play and optimum", share(min(head.position, 1)), known + what


def _headed(title: str, found: Table | None) -> list[Block]:
    return [] if found is None else [Text(title, "heading"), found]


def _stages(run: Run) -> list[Block]:
    if not run.stages:
        return []
    return [
        *figures.figure(
            figures.stages(run),
            "Losses: running mean over the steps, with its last value after the name; bands: the "
            "standard deviation of those steps. What else TRL measured stands in stages.jsonl.",
        ),
        tables.stages(run),
        Text(
            "Losses are means over a pass. Rewards are raw, per agent and step: of the games that "
            "were learned from, and of those parts of them that were kept."
        ),
    ]


def _reward(run: Run) -> list[Block]:
    several = curves(run, "environments", "Rounds that played the environment.")
    return [
        *curves(
            run, "reward", "Raw: the environment's own, mean per agent and step. "
            "Shaped: after the mode's mixing."
        ),
        *_headed("Evaluations", tables.evaluations(run)),
        *([Text("Each environment", "heading"), *several] if several else ()),
        *_headed("Environments, evaluated", tables.environments(run)),
        *_headed("Who won", tables.winners(run)),
    ]  # fmt: skip


def _models(run: Run) -> list[Block]:
    if not run.models:
        return []
    return [
        *curves(run, "returns"),
        tables.performance(run),
        Text(
            "Start and end are means over the first and the last tenth of the rounds; rewards are "
            "per step."
        ),
    ]


def _behaviour(run: Run) -> list[Block]:
    if not run.rows:
        return []
    failed = _headed("Failed episodes", tables.failed_episodes(run))
    return [*curves(run, "behaviour"), *(failed or [Text("No episode failed.")])]


def _updates(run: Run) -> list[Block]:
    if not run.rows:
        return []
    idle = tables.idle_updates(run)
    named = ", ".join(idle[:12]) + (f" and {len(idle) - 12} more" if len(idle) > 12 else "")
    unmoved = f"Counted as updates although no weight changed: {named}."
    return [
        *figures.figure(figures.updates(run), "Filled: updated in that round. Grey: not."),
        *figures.figure(
            figures.activity(run),
            "Filled: rounds were played, or the model learned or waited for its turn to.",
        ),
        *curves(run, "versions"),
        *curves(run, "weights", "Only rounds that changed a model's weights are joined."),
        tables.updates(run),
        Text(
            "Weight change: L2 norm of what a round added to the trainable weights. "
            "Staleness: how many updates of its model ago a sample was drawn."
        ),
        *([Text(unmoved, "bad")] if idle else ()),
        *_headed("Models that went on from others", tables.copies(run)),
        Details("Weight change per round", [tables.weight_changes(run)]),
    ]


def _episodes(run: Run, trusted: bool) -> list[Block]:
    return [block for sample in run.samples for block in _sample(run, sample, trusted)]


def _sample(run: Run, sample: Sample, trusted: bool) -> Sequence[Block]:
    title = Text(sample_label(sample.path).capitalize(), "heading")
    if not sample.episodes:
        return title, Text("The file is empty.")
    return title, *sample_episode(sample.episodes[0], run, trusted=trusted)


def sample_episode(
    episode: Episode,
    run: Run,
    *,
    trusted: bool,
    drawn: Callable[[Episode, TextView | None], Transcript] = transcript,
) -> Sequence[Block]:
    """The transcript of an episode of the run, and what is missing in it."""
    named = run.config.get("environment")
    options = (named.get("options") if isinstance(named, Mapping) else None) or {}
    try:
        view = view_of(episode, run.environment, options, trusted=trusted)
    except UntrustedError as error:
        told = Text(f"Agents are shown without their words: {error}.")
        return told, drawn(episode, None)
    return (drawn(episode, view),)


def configuration(run: Run) -> list[Block]:
    """What the run was told, and the versions that it ran with."""
    versions = run.summary.get("versions")
    blocks: list[Block] = [Text(run.config_text, "listing")] if run.config_text else []
    if isinstance(versions, Mapping) and versions:
        blocks.append(table(["package", "version"], sorted(versions.items())))
    return blocks
