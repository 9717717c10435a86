"""Comparison of several runs on one page: final values and differences in configuration."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from srl_agents.evaluation.bootstrap import mean_interval
from srl_extensions.pages import figures
from srl_extensions.pages.report import how_drawn, notes
from srl_extensions.pages.tables import won
from srl_train.metrics import page
from srl_train.metrics.document import (
    MISSING,
    Block,
    Details,
    Document,
    Section,
    Table,
    Text,
    number,
    share,
    table,
)
from srl_train.metrics.errors import RunFolderError
from srl_train.metrics.headline import edges, headline
from srl_train.metrics.run_folder import Run, load, number_at
from srl_train.metrics.seeds import Entry, entries, settings


def compare(runs: Sequence[Path], out: Path | None = None) -> Path:
    """Write a page that compares the runs to `out` (comparison.html beside the first run).

    Raises RunFolderError for fewer than two runs, or where one of them is none.
    """
    if len(runs) < 2:
        raise RunFolderError(f"a comparison needs two runs or more, got {len(runs)}")
    loaded = [load(folder) for folder in runs]
    named = list(zip(labels([run.folder for run in loaded]), loaded, strict=True))
    beside = runs[0].resolve().parent / "comparison.html"
    return page.write(comparison(named), beside if out is None else out)


def labels(folders: Sequence[Path]) -> list[str]:
    """A short, different name for each folder: its last parts, as many as it takes."""
    parts = [folder.resolve().parts for folder in folders]
    for length in range(1, max(map(len, parts)) + 1):
        names = ["/".join(part[-length:]) for part in parts]
        if len(set(names)) == len(names):
            return names
    raise RunFolderError(f"the same run was given twice: {', '.join(map(str, folders))}")


def comparison(runs: Sequence[tuple[str, Run]]) -> Document:
    """The comparison as a document for the page."""
    compared = entries(runs)
    environments = ", ".join(dict.fromkeys(run.environment for _, run in runs))
    caption = how_drawn(max(len(run.rows) for _, run in runs))
    tables: list[Block] = [final_values(compared)]
    if any(len(entry.runs) > 1 for entry in compared):
        caption += (
            " Of runs that differ only in their seed: the mean over them, and as the band its 95 % "
            "interval."
        )
        told = "Several seeds: the mean of their runs and, after ±, half its 95 % interval"
        alone = [Entry(label, (run,)) for label, run in runs]
        tables += [Text(f"{told} (Student's t)."), Details("Each run", [final_values(alone)])]
    return Document(
        f"{environments}: {len(runs)} runs side by side",
        " · ".join(label for label, _ in runs),
        [note for label, run in runs for note in notes(run, label)],
        [
            Section(
                "Reward and cooperation",
                figures.figure(figures.side_by_side(compared), caption),
            ),
            Section("Where they end", tables),
            Section("What they were told differently", [_differences(runs)]),
        ],
    )


def final_values(compared: Sequence[Entry]) -> Table:
    """Where runs end, one column for those that differ only in their seed."""
    told: list[tuple[str, Callable[[Run], object]]] = [
        ("environment", lambda run: run.environment),
        ("mode", lambda run: run.mode),
        ("updates", lambda run: run.strategy),
        ("seed", lambda run: run.seed),
        ("rounds", lambda run: len(run.rows)),
    ]
    everyone = [run for entry in compared for run in entry.runs]
    names = sorted({name for run in everyone for name in _last_winners(run)})
    measured: list[tuple[str, Callable[[Run], float], Callable[[float], str]]] = [
        ("raw reward, first tenth", lambda run: headline(run).start, number),
        ("raw reward, last tenth", lambda run: headline(run).end, number),
        ("raw reward, evaluated before", lambda run: headline(run).before, number),
        ("raw reward, evaluated after", lambda run: headline(run).after, number),
        ("learned, of the way to the optimum", lambda run: headline(run).change.learned, share),
        (
            "stands between uniform play and the optimum at",
            lambda run: headline(run).position,
            share,
        ),
        ("cooperation, first tenth", _edge("cooperation_rate", 0), share),
        ("cooperation, last tenth", _edge("cooperation_rate", 1), share),
        ("shaped reward, last tenth", _edge("shaped_reward", 1), number),
        ("parse failures, last tenth", _edge("parse_failures", 1), share),
        ("failed episodes", lambda run: run.total("environment", "failed_episodes"), number),
        *((f"won by {name}, last tenth", _won_by(name), share) for name in names),
        ("seconds", lambda run: number_at(run.summary, "seconds"), "{:.1f}".format),
    ]
    rows: list[tuple[object, ...]] = [
        (name, *(", ".join(dict.fromkeys(str(of(r)) for r in e.runs)) for e in compared))
        for name, of in told
    ]
    rows += [
        (name, *(_over([of(run) for run in entry.runs], written) for entry in compared))
        for name, of, written in measured
    ]
    return table(["", *(entry.label for entry in compared)], rows)


def _over(values: Sequence[float], written: Callable[[float], str]) -> str:
    """A run's value; of several seeds their mean, and how far its interval reaches."""
    mean, _, high = mean_interval(values)
    if not math.isfinite(mean):
        return MISSING
    return f"{written(mean)} ± {written(high - mean)}" if math.isfinite(high) else written(mean)


def _edge(key: str, end: int) -> Callable[[Run], float]:
    return lambda run: edges(run.series("environment", key))[end]


def _won_by(name: str) -> Callable[[Run], float]:
    def of(run: Run) -> float:
        shares = _last_winners(run)
        return shares.get(name, 0.0) if shares else math.nan

    return of


def _last_winners(run: Run) -> dict[str, float]:
    """Winner -> share of the games of the last tenth of the rounds."""
    count = won(run.rows[-max(1, len(run.rows) // 10) :])
    return {name: games / count.total() for name, games in count.items()}


def _differences(runs: Sequence[tuple[str, Run]]) -> Table | Text:
    flat = [settings(run.config) for _, run in runs]
    keys = dict.fromkeys(key for settings in flat for key in settings)
    differing = [key for key in keys if len({repr(settings.get(key)) for settings in flat}) > 1]
    if not differing:
        return Text("Nothing: their configurations are equal.")
    return table(
        ["setting", *(label for label, _ in runs)],
        [(key, *(str(settings.get(key, MISSING)) for settings in flat)) for key in differing],
    )
