"""Several runs side by side on one page: where they end, and what they were told differently."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from srl_train.metrics import figures, plots
from srl_train.metrics.errors import RunFolderError
from srl_train.metrics.headline import edges, headline
from srl_train.metrics.page import (
    MISSING,
    escaped,
    figure,
    number,
    page,
    section,
    share,
    table,
    write,
)
from srl_train.metrics.report import how_drawn, notes
from srl_train.metrics.run_folder import Run, load, number_at
from srl_train.metrics.tables import won


def compare(runs: Sequence[Path], out: Path | None = None) -> Path:
    """Write a page that compares the runs to `out` (comparison.html beside the first run).

    Raises RunFolderError for fewer than two runs, or where one of them is none.
    """
    if len(runs) < 2:
        raise RunFolderError(f"a comparison needs two runs or more, got {len(runs)}")
    loaded = [load(folder) for folder in runs]
    named = list(zip(labels([run.folder for run in loaded]), loaded, strict=True))
    return write(
        render(named), runs[0].resolve().parent / "comparison.html" if out is None else out
    )


def labels(folders: Sequence[Path]) -> list[str]:
    """A short, different name for each folder: its last parts, as many as it takes."""
    parts = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    raise RunFolderError(f"the same run was given twice: {', '.join(map(str, folders))}")


def render(runs: Sequence[tuple[str, Run]]) -> str:
    """The page as text."""
    drawing = figures.side_by_side(runs)
    svg = (
        None if drawing is None else plots.to_svg(drawing, "runs", "Reward and cooperation per run")
    )
    environments = ", ".join(dict.fromkeys(run.environment for _, run in runs))
    head = (
        f"<header><h1>{escaped(environments)}: {len(runs)} runs side by side</h1>"
        f'<div class="quiet">{escaped(" · ".join(label for label, _ in runs))}</div></header>'
    )
    partial = [f"<p><b>{escaped(label)}</b></p>{notes(run)}" for label, run in runs if run.notes]
    return page(
        f"Core SRL: {environments}, {len(runs)} runs",
        [
            head,
            *partial,
            section(
                "curves",
                "Reward and cooperation",
                figure(svg, how_drawn(max(len(run.rows) for _, run in runs))),
            ),
            section("ends", "Where they end", _ends(runs)),
            section("told", "What they were told differently", _differences(runs)),
        ],
    )


def _ends(runs: Sequence[tuple[str, Run]]) -> str:
    winners = sorted({name for _, run in runs for name in _last_winners(run)})
    columns: list[list[object]] = []
    for label, run in runs:
        head = headline(run)
        cooperation = edges(run.series("environment", "cooperation_rate"))
        winners_of = _last_winners(run)
        columns.append(
            [
                label, run.environment, run.mode, run.strategy, run.seed, len(run.rows),
                number(head.start), number(head.end), number(head.before), number(head.after),
                share(head.change.learned), share(head.position),
                share(cooperation[0]), share(cooperation[1]),
                number(edges(run.series("environment", "shaped_reward"))[1]),
                share(edges(run.series("environment", "parse_failures"))[1]),
                f"{run.total('environment', 'failed_episodes'):.0f}",
                *(share(winners_of.get(name, 0.0)) if winners_of else MISSING for name in winners),
                _seconds(run),
            ]
        )  # fmt: skip
    names = [
        "", "environment", "mode", "updates", "seed", "rounds", "raw reward, first tenth",
        "raw reward, last tenth", "raw reward, evaluated before", "raw reward, evaluated after",
        "learned, of the way to the optimum", "stands between uniform play and the optimum at",
        "cooperation, first tenth",
        "cooperation, last tenth", "shaped reward, last tenth", "parse failures, last tenth",
        "failed episodes", *(f"won by {name}, last tenth" for name in winners), "seconds",
    ]  # fmt: skip
    rows = list(zip(names, *columns, strict=True))
    return table([str(cell) for cell in rows[0]], rows[1:])


def _last_winners(run: Run) -> dict[str, float]:
    """Winner -> share of the games of the last tenth of the rounds."""
    count = won(run.rows[-max(1, len(run.rows) // 10) :])
    return {name: games / count.total() for name, games in count.items()}


def _seconds(run: Run) -> str:
    seconds = number_at(run.summary, "seconds")
    return f"{seconds:.1f}" if math.isfinite(seconds) else MISSING


def _differences(runs: Sequence[tuple[str, Run]]) -> str:
    flat = [_flat(run.config) for _, run in runs]
    keys = dict.fromkeys(key for settings in flat for key in settings)
    differing = [key for key in keys if len({repr(settings.get(key)) for settings in flat}) > 1]
    if not differing:
        return '<p class="quiet">Nothing: their configurations are equal.</p>'
    return table(
        ["setting", *(label for label, _ in runs)],
        [(key, *(str(settings.get(key, MISSING)) for settings in flat)) for key in differing],
    )


def _flat(tree: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in tree.items():
        if isinstance(value, Mapping) and value:
            found |= _flat(value, f"{above}{key}.")
        else:
            found[f"{above}{key}"] = value
    return found
