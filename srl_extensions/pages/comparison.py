"""Comparison of several runs on one page: final values and differences in configuration."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from srl_agents.evaluation.bootstrap import mean_interval
from srl_extensions.pages import figures
from srl_extensions.pages.document import (
    Block,
    Details,
    Document,
    PageSection,
    Table,
    Text,
    table,
    write_page,
)
from srl_extensions.pages.headline import headline
from srl_extensions.pages.report import games_won, how_drawn, notes
from srl_extensions.pages.run_folder import (
    RecordedRun,
    by_seed,
    labels,
    load,
    number_at,
    settings,
)
from srl_train.metrics.errors import RunFolderError
from srl_train.metrics.tables import MISSING, number, share


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
    path = runs[0].resolve().parent / "comparison.html" if out is None else out
    return write_page(comparison(labeled(runs)), path)


def labeled(folders: Sequence[Path]) -> list[tuple[str, RecordedRun]]:
    """Load several runs, each with a short unique label."""
    return list(zip(labels(folders), map(load, folders), strict=True))


def comparison(runs: Sequence[tuple[str, RecordedRun]]) -> Document:
    """Return the comparison of the labeled runs as a document."""
    compared = by_seed(runs)
    caption = how_drawn(max(len(run.rows) for _, run in runs))
    tables: list[Block] = [final_values(compared)]
    if len(compared) < len(runs):
        caption += (
            " Of runs that differ only in their seed: the mean over them, and as the band its 95 % "
            "interval."
        )
        tables += [
            Text(
                "Several seeds: the mean of their runs and, after ±, half its 95 % interval "
                "(Student's t)."
            ),
            Details("Each run", [final_values({label: [run] for label, run in runs})]),
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


def final_values(compared: Mapping[str, Sequence[RecordedRun]]) -> Table:
    """Return the table of final values with a column per entry."""

    def edge(key: str, end: int) -> Callable[[RecordedRun], float]:
        return lambda run: run.edges(key)[end]

    def won_by(name: str) -> Callable[[RecordedRun], float]:
        return lambda run: last_won(run).get(name, 0.0) if last_won(run) else math.nan

    described: list[tuple[str, Callable[[RecordedRun], object]]] = [
        ("environment", lambda run: run.environment),
        ("mode", lambda run: run.mode),
        ("updates", lambda run: run.strategy),
        ("seed", lambda run: run.seed),
        ("rounds", lambda run: len(run.rows)),
    ]
    names = sorted({name for runs in compared.values() for run in runs for name in last_won(run)})
    measured: list[tuple[str, Callable[[RecordedRun], float], Callable[[float], str]]] = [
        ("raw reward, first tenth", edge("raw_reward", 0), number),
        ("raw reward, last tenth", edge("raw_reward", 1), number),
        ("raw reward, evaluated before", lambda run: run.evaluated("before", "raw_reward"), number),
        ("raw reward, evaluated after", lambda run: run.evaluated("after", "raw_reward"), number),
        ("learned, of the way to the optimum", lambda run: headline(run).learned, share),
        ("between uniform play and the optimum", lambda run: headline(run).position, share),
        ("cooperation, first tenth", edge("cooperation_rate", 0), share),
        ("cooperation, last tenth", edge("cooperation_rate", 1), share),
        ("shaped reward, last tenth", edge("shaped_reward", 1), number),
        ("parse failures, last tenth", edge("parse_failures", 1), share),
        ("failed episodes", lambda run: run.total("environment", "failed_episodes"), number),
        *((f"won by {name}, last tenth", won_by(name), share) for name in names),
        ("seconds", lambda run: number_at(run.summary, "seconds"), "{:.1f}".format),
    ]
    rows: list[tuple[object, ...]] = [
        (name, *(", ".join(dict.fromkeys(str(of(run)) for run in runs))
                 for runs in compared.values()))
        for name, of in described
    ]  # fmt: skip
    for name, of, written in measured:
        cells = []
        for runs in compared.values():
            mean, _, high = mean_interval([of(run) for run in runs])
            spread = f" ± {written(high - mean)}" if math.isfinite(high) else ""
            cells.append(written(mean) + spread if math.isfinite(mean) else MISSING)
        rows.append((name, *cells))
    return table(["", *compared], rows)


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
