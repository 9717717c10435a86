"""Comparison of several runs on one page: final values and differences in configuration."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path

from srl_agents.evaluation.bootstrap import mean_interval
from srl_extensions.pages import figures
from srl_extensions.pages.report import games_won, how_drawn, notes
from srl_train.metrics import page
from srl_train.metrics.document import (
    MISSING,
    Block,
    Details,
    Document,
    PageSection,
    Table,
    Text,
    number,
    share,
    table,
)
from srl_train.metrics.errors import RunFolderError
from srl_train.metrics.headline import edges, headline
from srl_train.metrics.run_folder import RecordedRun, load, number_at
from srl_train.metrics.seeds import SeedEntry, entries, labels, settings


def compare(runs: Sequence[Path], out: Path | None = None) -> Path:
    """Write a page that compares the runs, and return its path.

    Args:
        runs: Folders of at least two runs.
        out: File to write; comparison.html next to the first run by default.

    Raises:
        RunFolderError: For fewer than two runs, or if a folder does not contain a run.
    """
    if len(runs) < 2:
        raise RunFolderError(f"a comparison needs two runs or more, got {len(runs)}")
    loaded = [load(folder) for folder in runs]
    named = list(zip(labels(runs), loaded, strict=True))
    path = runs[0].resolve().parent / "comparison.html" if out is None else out
    return page.write(comparison(named), path)


def comparison(runs: Sequence[tuple[str, RecordedRun]]) -> Document:
    """Return the comparison of the labelled runs as a document."""
    compared = entries(runs)
    caption = how_drawn(max(len(run.rows) for _, run in runs))
    tables: list[Block] = [final_values(compared)]
    if any(len(entry.runs) > 1 for entry in compared):
        caption += (
            " Of runs that differ only in their seed: the mean over them, and as the band its 95 % "
            "interval."
        )
        alone = [SeedEntry(label, (run,)) for label, run in runs]
        tables += [
            Text(
                "Several seeds: the mean of their runs and, after ±, half its 95 % interval "
                "(Student's t)."
            ),
            Details("Each run", [final_values(alone)]),
        ]
    drawn = figures.figure(figures.side_by_side(compared), caption)
    environments = ", ".join(dict.fromkeys(run.environment for _, run in runs))
    return Document(
        f"{environments}: {len(runs)} runs side by side",
        " · ".join(label for label, _ in runs),
        [note for label, run in runs for note in notes(run, label)],
        [
            PageSection("Reward and cooperation", drawn),
            PageSection("Where they end", tables),
            PageSection("Differences in configuration", [_differences(runs)]),
        ],
    )


def final_values(compared: Sequence[SeedEntry]) -> Table:
    """Return the table of final values with a column per entry."""

    def edge(key: str, end: int) -> Callable[[RecordedRun], float]:
        return lambda run: edges(run.series("environment", key))[end]

    def won_by(name: str) -> Callable[[RecordedRun], float]:
        return lambda run: last_won(run).get(name, 0.0) if last_won(run) else math.nan

    def capped(value: float) -> str:
        return share(min(value, 1.0))  # More than the optimum is noise.

    described: list[tuple[str, Callable[[RecordedRun], object]]] = [
        ("environment", lambda run: run.environment),
        ("mode", lambda run: run.mode),
        ("updates", lambda run: run.strategy),
        ("seed", lambda run: run.seed),
        ("rounds", lambda run: len(run.rows)),
    ]
    names = sorted({name for entry in compared for run in entry.runs for name in last_won(run)})
    measured: list[tuple[str, Callable[[RecordedRun], float], Callable[[float], str]]] = [
        ("raw reward, first tenth", lambda run: headline(run).start, number),
        ("raw reward, last tenth", lambda run: headline(run).end, number),
        ("raw reward, evaluated before", lambda run: headline(run).before, number),
        ("raw reward, evaluated after", lambda run: headline(run).after, number),
        ("learned, of the way to the optimum", lambda run: headline(run).change.learned, capped),
        ("between uniform play and the optimum", lambda run: headline(run).position, capped),
        ("cooperation, first tenth", edge("cooperation_rate", 0), share),
        ("cooperation, last tenth", edge("cooperation_rate", 1), share),
        ("shaped reward, last tenth", edge("shaped_reward", 1), number),
        ("parse failures, last tenth", edge("parse_failures", 1), share),
        ("failed episodes", lambda run: run.total("environment", "failed_episodes"), number),
        *((f"won by {name}, last tenth", won_by(name), share) for name in names),
        ("seconds", lambda run: number_at(run.summary, "seconds"), "{:.1f}".format),
    ]
    rows: list[tuple[object, ...]] = [
        (name, *(", ".join(dict.fromkeys(str(of(r)) for r in e.runs)) for e in compared))
        for name, of in described
    ]
    for name, of, written in measured:
        cells = []
        for entry in compared:
            mean, _, high = mean_interval([of(run) for run in entry.runs])
            spread = f" ± {written(high - mean)}" if math.isfinite(high) else ""
            cells.append(written(mean) + spread if math.isfinite(mean) else MISSING)
        rows.append((name, *cells))
    return table(["", *(entry.label for entry in compared)], rows)


def last_won(run: RecordedRun) -> dict[str, float]:
    """Return the share of episodes that each winner won in the last tenth of the rounds."""
    count = games_won(run.rows[-max(1, len(run.rows) // 10) :])
    return {name: games / count.total() for name, games in count.items()}


def _differences(runs: Sequence[tuple[str, RecordedRun]]) -> Table | Text:
    flat = [settings(run.config) for _, run in runs]
    keys = dict.fromkeys(key for own in flat for key in own)
    differing = [key for key in keys if len({repr(own.get(key)) for own in flat}) > 1]
    if not differing:
        return Text("None: their configurations are equal.")
    return table(
        ["setting", *(label for label, _ in runs)],
        [(key, *(str(own.get(key, MISSING)) for own in flat)) for key in differing],
    )
