"""One self-contained HTML page that shows what a run learned."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from srl_train.metrics import figures, plots, tables
from srl_train.metrics.headline import FOR_THE_OPTIMUM, Headline, ends, headline
from srl_train.metrics.page import (
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
from srl_train.metrics.run_folder import Run, Sample, load, number_at
from srl_train.metrics.transcript import transcript, view_of


def write_report(run_dir: Path, out: Path | None = None) -> Path:
    """Write the report of the run in `run_dir` to `out` (`run_dir`/report.html); returns its path.

    A run without rounds, summary or episodes gets a report that says what is missing. Raises
    RunFolderError where there is no run or its records are damaged, PlotsError without matplotlib.
    """
    run = load(run_dir)
    return write(render(run), run_dir / "report.html" if out is None else out)


def render(run: Run) -> str:
    """The page as text."""
    title = f"{run.environment}, {run.mode}, {run.strategy}, seed {run.seed}"
    sections = [
        ("reward", "Reward", _reward(run)),
        ("models", "The models", _models(run)),
        ("behaviour", "How they played", _behaviour(run)),
        ("updates", "Who updated when", _updates(run)),
        ("learning", "What the learners measured", _learning(run)),
        ("episodes", "Sample episodes", _episodes(run)),
        ("configuration", "Configuration", _configuration(run)),
    ]
    links = "".join(f'<a href="#{anchor}">{name}</a>' for anchor, name, _ in sections)
    head = (
        f"<header><h1>{escaped(run.environment)}: {_count(run.models, 'model')} learning together"
        f'</h1><div class="quiet">mode {escaped(run.mode)} · updates {escaped(run.strategy)} · '
        f"seed {escaped(run.seed)} · {escaped(run.folder.resolve().name)}</div>"
        f"<nav>{links}</nav></header>"
    )
    body = [section(anchor, name, *parts) for anchor, name, parts in sections]
    return page(f"Core SRL: {title}", [head, notes(run), _cards(run), *body])


def how_drawn(rounds: int) -> str:
    """What the lines of a figure are, for its caption."""
    window = plots.smoothing_window(rounds)
    if window == 1:
        return "The number after a name is its last value."
    return (
        f"Thick: running mean over {window} rounds, with its last value after the name; "
        "thin: every round."
    )


def drawn(run: Run, name: str, description: str) -> str | None:
    """The named figure of the run as SVG; None where there is nothing to draw."""
    made = figures.FIGURES[name](run)
    return None if made is None else plots.to_svg(made, name, description)


def notes(run: Run) -> str:
    """What is missing, as a box; empty where nothing is."""
    items = "".join(f"<li>{escaped(note)}</li>" for note in run.notes)
    return f'<div class="notes">This report is partial.<ul>{items}</ul></div>' if items else ""


def _cards(run: Run) -> str:
    head = headline(run)
    in_training = f"{number(head.start)} → {number(head.end)}"
    if math.isfinite(head.after):
        spread = number_at(run.summary, "evaluation", "after", "standard_error")
        error = f" · standard error {number(spread, 2)}" if math.isfinite(spread) else ""
        reward = card(
            "Raw reward, evaluation before → after",
            f"{number(head.before)} → {number(head.after)}",
            f"per seat and step{error} · in training {in_training}",
        )
    else:
        reward = card("Raw reward, first → last rounds", in_training, "per seat and step")
    cooperation = ends(run, "cooperation_rate")
    failures = ends(run, "parse_failures")
    failed, played = (int(run.total("environment", k)) for k in ("failed_episodes", "episodes"))
    seconds = sum(sum(row.get("seconds", {}).values()) for row in run.rows)
    cards = [
        reward,
        _way(run, head),
        card("Cooperation rate", f"{share(cooperation[0])} → {share(cooperation[1])}"),
        card("Parse failures", f"{share(failures[0])} → {share(failures[1])}", "of all answers"),
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


def _reward(run: Run) -> list[str | None]:
    won = tables.winners(run)
    return [
        figure(
            drawn(run, "reward", "Raw and shaped reward of the environment over the rounds"),
            "Raw: the environment's own, mean per seat and step. Shaped: after the mode's mixing. "
            + how_drawn(len(run.rows)),
        ),
        *_environments(run),
        f"<h3>Who won</h3>{won}" if won else None,
    ]


def _environments(run: Run) -> list[str | None]:
    """Each environment's own curves and evaluations, where the run has several."""
    curves = drawn(run, "environments", "Return, success and unread answers per environment")
    if curves is None:
        return []
    return [
        "<h3>Each environment</h3>",
        figure(curves, "Rounds that played the environment. " + how_drawn(len(run.rows))),
        tables.environments(run),
    ]


def _models(run: Run) -> list[str | None]:
    if not run.models:
        return []
    caption = how_drawn(len(run.rows))
    return [
        figure(drawn(run, "returns", "Raw and shaped return of every model"), caption),
        tables.performance(run),
        '<p class="quiet">Start and end are means over the first and the last tenth of the rounds; '
        "rewards are per step.</p>",
    ]


def _behaviour(run: Run) -> list[str | None]:
    if not run.rows:
        return []
    failed = tables.failed_episodes(run)
    caption = how_drawn(len(run.rows))
    return [
        figure(drawn(run, "behaviour", "Cooperation and parse failures of every model"), caption),
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
        figure(
            drawn(run, "updates", "Rounds in which each model was updated"),
            "Filled: updated in that round. Grey: not.",
        ),
        figure(
            drawn(run, "weights", "Weight change of every model"),
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
    drawing = drawn(run, "learning", "Loss, gradient norm and so on of every model")
    return [figure(drawing, how_drawn(len(run.rows)))]


def _episodes(run: Run) -> list[str | None]:
    named = run.config.get("environment")
    options = named.get("options") if isinstance(named, Mapping) else None
    return [_sample(sample, run.environment, options or {}) for sample in run.samples]


def _sample(sample: Sample, environment: str, options: Mapping[str, Any]) -> str:
    if not sample.episodes:
        return f'<h3>{escaped(sample.label)}</h3><p class="quiet">The file is empty.</p>'
    episode = sample.episodes[0]
    return f"<h3>{escaped(sample.label.capitalize())}</h3>" + transcript(
        episode, view_of(episode, environment, options)
    )


def _configuration(run: Run) -> list[str | None]:
    versions = run.summary.get("versions")
    return [
        f"<pre>{escaped(run.config_text)}</pre>" if run.config_text else None,
        table(["package", "version"], sorted(versions.items()))
        if isinstance(versions, Mapping) and versions
        else None,
    ]


def _count(things: tuple[str, ...], noun: str) -> str:
    return f"{len(things)} {noun}{'' if len(things) == 1 else 's'}"
