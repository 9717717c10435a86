"""Comparison of several runs on one page: curves, final values and differences in configuration."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from srl_extensions.pages import figures
from srl_extensions.pages.document import Document, PageSection, Table, Text, table, write_page
from srl_extensions.pages.headline import headline
from srl_extensions.pages.report import how_drawn, notes
from srl_extensions.pages.run_folder import RecordedRun, labels, load, number_at, settings
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


def labeled(folders: Sequence[Path]) -> dict[str, RecordedRun]:
    """Load several runs, each with a short unique label."""
    return dict(zip(labels(folders), map(load, folders), strict=True))


def comparison(runs: Mapping[str, RecordedRun]) -> Document:
    """Return the comparison of the labeled runs as a document."""
    caption = how_drawn(max(len(run.rows) for run in runs.values()))
    environments = ", ".join(dict.fromkeys(run.environment for run in runs.values()))
    return Document(
        f"{environments}: {len(runs)} runs side by side",
        " · ".join(runs),
        [note for label, run in runs.items() for note in notes(run, label)],
        [
            PageSection(
                "Reward and cooperation", figures.figure(figures.side_by_side(runs), caption)
            ),
            PageSection("Where they end", [final_values(runs)]),
            PageSection("Differences in configuration", [_differences(runs)]),
        ],
    )


def final_values(runs: Mapping[str, RecordedRun]) -> Table:
    """Return the table of final values with a column per run."""

    def edge(key: str, end: int, written: Callable[[float], str]) -> Callable[[RecordedRun], str]:
        return lambda run: written(run.edges(key)[end])

    described: dict[str, Callable[[RecordedRun], object]] = {
        "environment": lambda run: run.environment,
        "mode": lambda run: run.mode,
        "updates": lambda run: run.strategy,
        "seed": lambda run: run.seed,
        "rounds": lambda run: len(run.rows),
        "raw reward, first tenth": edge("raw_reward", 0, number),
        "raw reward, last tenth": edge("raw_reward", 1, number),
        "raw reward, evaluated before": lambda run: number(headline(run).before),
        "raw reward, evaluated after": lambda run: number(headline(run).after),
        "learned, of the way to the optimum": lambda run: share(headline(run).learned),
        "between uniform play and the optimum": lambda run: share(headline(run).position),
        "cooperation, first tenth": edge("cooperation_rate", 0, share),
        "cooperation, last tenth": edge("cooperation_rate", 1, share),
        "parse failures, last tenth": edge("parse_failures", 1, share),
        "failed episodes": lambda run: number(run.total("environment", "failed_episodes")),
        "seconds": lambda run: number(number_at(run.summary, "seconds")),
    }
    rows = [(name, *map(of, runs.values())) for name, of in described.items()]
    return table(["", *runs], rows)


def _differences(runs: Mapping[str, RecordedRun]) -> Table | Text:
    flat = [settings(run.config) for run in runs.values()]
    keys = dict.fromkeys(key for own in flat for key in own)
    differing = [key for key in keys if len({repr(own.get(key)) for own in flat}) > 1]
    if not differing:
        return Text("None: their configurations are equal.")
    rows = [(key, *(own.get(key, MISSING) for own in flat)) for key in differing]
    return table(["setting", *runs], rows)
