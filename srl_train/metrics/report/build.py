"""One self-contained HTML page that shows what a run learned."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path

from srl_envs.errors import UntrustedError
from srl_train.metrics.report import figures, plots, tables
from srl_train.metrics.report.headline import FOR_THE_OPTIMUM, Headline, ends, headline
from srl_train.metrics.report.page import (
    MISSING,
    card,
    escaped,
    figure,
    number,
    page,
    section,
    share,
    table,
    write,
)
from srl_train.metrics.report.transcript import transcript, view_of
from srl_train.metrics.run_folder import Run, Sample, load, number_at


def write_report(run_dir: Path, out: Path | None = None, *, trusted: bool = False) -> Path:
    """Write the report of the run in `run_dir` to `out` (`run_dir`/report.html); returns its path.

    A run without rounds, summary or episodes gets a report that says what is missing. Code and
    files that its configuration names are touched only where it is `trusted`. Raises
    RunFolderError where there is no run or its records are damaged, PlotsError without matplotlib.
    """
    run = load(run_dir)
    return write(render(run, trusted=trusted), run_dir / "report.html" if out is None else out)


def render(run: Run, *, trusted: bool = False) -> str:
    """The page as text."""
    title = f"{run.environment}, {run.mode}, {run.strategy}, seed {run.seed}"
    parts = [
        ("stages", "Learned from data", _stages(run)),
        ("reward", "Reward", _reward(run)),
        ("models", "The models", _models(run)),
        ("behaviour", "How they played", _behaviour(run)),
        ("updates", "Who updated when", _updates(run)),
        ("learning", "What the learners measured", _learning(run)),
        ("episodes", "Sample episodes", _episodes(run, trusted)),
        ("configuration", "Configuration", _configuration(run)),
    ]
    sections = [(anchor, name, found) for anchor, name, found in parts if any(found)]
    links = "".join(f'<a href="#{anchor}">{name}</a>' for anchor, name, _ in sections)
    head = (
        f"<header><h1>{escaped(run.environment)}: {escaped(_who(run))}</h1>"
        f'<div class="quiet">mode {escaped(run.mode)} · updates {escaped(run.strategy)} · '
        f"seed {escaped(run.seed)} · {escaped(run.folder.resolve().name)}</div>"
        f"<nav>{links}</nav></header>"
    )
    body = [section(anchor, name, *found) for anchor, name, found in sections]
    return page(f"Core SRL: {title}", [head, notes(run), _cards(run), *body])


def _who(run: Run) -> str:
    """Which models learned, and from what beside their own rounds."""
    models = f"{len(run.models)} model{'' if len(run.models) == 1 else 's'}"
    stages = " and ".join(stage.upper() for stage in run.stages)
    if not run.rows:
        return f"{models}, {stages}" if stages else "nothing learned yet"
    return f"{models} learning together" + (f" after {stages}" if stages else "")


def how_drawn(rounds: int) -> str:
    """What the lines of a figure are, for its caption."""
    window = plots.smoothing_window(rounds)
    if window == 1:
        return "The number after a name is its last value."
    return (
        f"Lines: running mean over {window} rounds, with its last value after the name; "
        "bands: the standard deviation of those rounds."
    )


def drawn(drawings: Sequence[plots.Panel | plots.Raster], name: str, caption: str) -> str | None:
    """A figure of a page: an SVG per drawing, side by side where there is room, and below it a
    sentence on what never changed; None where nothing was measured."""
    changing, still = figures.changing(drawings)
    panels = "\n".join(
        plots.to_svg(plots.draw([one]), f"{name}-{place}", one.title)
        for place, one in enumerate(changing)
    )
    shown = figure(f'<div class="panels">{panels}</div>', caption) if panels else None
    said = f'<p class="quiet">{escaped(still)}</p>' if still else None
    return "".join(part for part in (shown, said) if part) or None


def _drawn(run: Run, name: str, caption: str) -> str | None:
    return drawn(figures.FIGURES[name](run), name, caption)


def notes(run: Run) -> str:
    """What was warned of and what is missing, as boxes; empty where nothing is."""
    boxes = (("Warnings of the run.", run.warnings), ("This report is partial.", run.notes))
    return "".join(
        f'<div class="notes">{title}<ul>{items}</ul></div>'
        for title, told in boxes
        if (items := "".join(f"<li>{escaped(line)}</li>" for line in told))
    )


def _cards(run: Run) -> str:
    head = headline(run)
    in_training = f"{number(head.start)} → {number(head.end)}" if run.rows else ""
    if math.isfinite(head.after):
        spread = number_at(run.summary, "evaluation", "after", "standard_error")
        error = f" · standard error {number(spread, 2)}" if math.isfinite(spread) else ""
        reward = card(
            "Raw reward, evaluation before → after",
            f"{number(head.before)} → {number(head.after)}",
            f"per seat and step{error}" + (f" · in training {in_training}" if in_training else ""),
        )
    else:
        reward = card(
            "Raw reward, first → last rounds", in_training or MISSING, "per seat and step"
        )
    cooperation = ends(run, "cooperation_rate")
    failures = ends(run, "parse_failures")
    failed, played = (int(run.total("environment", k)) for k in ("failed_episodes", "episodes"))
    seconds = sum(sum((row.get("seconds") or {}).values()) for row in run.rows)
    passes = ", ".join(f"{stage.upper()} {len(rows)}" for stage, rows in run.stages.items())
    spent = sum(number_at(row, "seconds") for rows in run.stages.values() for row in rows)
    cards = [
        reward,
        _way(run, head),
        card("Cooperation rate", f"{share(cooperation[0])} → {share(cooperation[1])}"),
        card("Parse failures", f"{share(failures[0])} → {share(failures[1])}", "of all answers"),
    ]
    if passes:
        cards.append(card("Passes over data", passes, f"{spent:.1f} s in all"))
    if run.rows or not passes:
        cards += [
            card("Failed episodes", f"{failed} of {played}", "kept out of training"),
            card("Rounds", str(len(run.rows)), f"{seconds:.1f} s in all"),
        ]
    return f'<div class="cards">{"".join(cards)}</div>'


def _way(run: Run, head: Headline) -> str:
    """How far the models came, of a game whose optimum is known and trained for."""
    known = " · ".join(f"{name} {number(value)}" for name, value in run.baselines.items())
    if not known:
        return card("Way to the optimum", MISSING, "no baselines")
    if run.mode not in FOR_THE_OPTIMUM:
        return card("Way to the optimum", MISSING, f"{known} · not what this mode trains for")
    if math.isfinite(head.change.learned):
        error = f"standard error {share(head.change.learned_error)}"
        return card("Of the way to the optimum, learned", share(head.change.learned),
                    f"{known} · {error}")  # fmt: skip
    unmoved = math.isfinite(head.change.after - head.change.before)
    what = " · no rise beyond chance" if unmoved else ""
    return card("Between uniform play and optimum", share(head.position), known + what)


def _stages(run: Run) -> list[str | None]:
    if not run.stages:
        return []
    return [
        _drawn(run, "stages", _STAGES),
        tables.stages(run),
        '<p class="quiet">Losses are means over a pass. Rewards are raw, per seat and step: of the '
        "games that were learned from, and of those parts of them that were kept.</p>",
    ]


_STAGES = (
    "Losses: running mean over the steps, with its last value after the name; bands: the standard "
    "deviation of those steps. What else TRL measured stands in stages.jsonl."
)


def _reward(run: Run) -> list[str | None]:
    won = tables.winners(run)
    evaluated = tables.evaluations(run)
    return [
        _drawn(
            run,
            "reward",
            "Raw: the environment's own, mean per seat and step. Shaped: after the mode's mixing. "
            + how_drawn(len(run.rows)),
        ),
        f"<h3>Evaluations</h3>{evaluated}" if evaluated else None,
        *_environments(run),
        f"<h3>Who won</h3>{won}" if won else None,
    ]


def _environments(run: Run) -> list[str | None]:
    """Each environment's own curves and evaluations, where the run has several."""
    caption = "Rounds that played the environment. " + how_drawn(len(run.rows))
    curves = _drawn(run, "environments", caption)
    if curves is None:
        return []
    return [
        "<h3>Each environment</h3>",
        curves,
        tables.environments(run),
    ]


def _models(run: Run) -> list[str | None]:
    if not run.models:
        return []
    return [
        _drawn(run, "returns", how_drawn(len(run.rows))),
        tables.performance(run),
        '<p class="quiet">Start and end are means over the first and the last tenth of the rounds; '
        "rewards are per step.</p>",
    ]


def _behaviour(run: Run) -> list[str | None]:
    if not run.rows:
        return []
    failed = tables.failed_episodes(run)
    return [
        _drawn(run, "behaviour", how_drawn(len(run.rows))),
        f"<h3>Failed episodes</h3>{failed}"
        if failed
        else '<p class="quiet">No episode failed.</p>',
    ]


def _updates(run: Run) -> list[str | None]:
    if not run.rows:
        return []
    idle = tables.idle_updates(run)
    named = ", ".join(idle[:12]) + (f" and {len(idle) - 12} more" if len(idle) > 12 else "")
    return [
        _drawn(
            run,
            "updates",
            "Filled: updated in that round. Grey: not.",
        ),
        _drawn(
            run,
            "weights",
            "Only rounds that changed a model's weights are joined. " + how_drawn(len(run.rows)),
        ),
        tables.updates(run),
        '<p class="quiet">Weight change: L2 norm of what a round added to the trainable weights. '
        "Staleness: how many updates of its model ago a sample was drawn.</p>",
        f'<p class="reason">Counted as updates although no weight changed: {escaped(named)}.</p>'
        if idle
        else None,
        "<details><summary>Weight change per round</summary>"
        f"{tables.weight_changes(run)}</details>",
    ]


def _learning(run: Run) -> list[str | None]:
    return [_drawn(run, "learning", how_drawn(len(run.rows)))]


def _episodes(run: Run, trusted: bool) -> list[str | None]:
    return [_sample(run, sample, trusted) for sample in run.samples]


def _sample(run: Run, sample: Sample, trusted: bool) -> str:
    title = f"<h3>{escaped(sample.label.capitalize())}</h3>"
    if not sample.episodes:
        return f'{title}<p class="quiet">The file is empty.</p>'
    episode = sample.episodes[0]
    named = run.config.get("environment")
    options = (named.get("options") if isinstance(named, Mapping) else None) or {}
    view, told = None, ""
    try:
        view = view_of(episode, run.environment, options, trusted=trusted)
    except UntrustedError as error:
        told = f'<p class="quiet">Seats are shown without their words: {escaped(error)}.</p>'
    return title + told + transcript(episode, view)


def _configuration(run: Run) -> list[str | None]:
    versions = run.summary.get("versions")
    return [
        f"<pre>{escaped(run.config_text)}</pre>" if run.config_text else None,
        table(["package", "version"], sorted(versions.items()))
        if isinstance(versions, Mapping) and versions
        else None,
    ]
