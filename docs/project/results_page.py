"""Generator of the results page and its figures, from the claims and their records.

    python docs/project/results_page.py    writes results.md and figures/results/NAME.svg

A claim (benchmarks/claims/NAME.yaml) has the title, the interpretation and the columns that are
shown; its record (benchmarks/results/NAME.json) has the numbers. results.template has the order of
the claims and the results that are not claims.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import matplotlib.figure
from pydantic import Field

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT))

from benchmarks import claim as claims  # noqa: E402
from benchmarks.claim import Claim, Section  # noqa: E402

TEMPLATE = HERE / "results.template"
PAGE = HERE / "results.md"
FIGURES = HERE / "figures" / "results"
COLORS = ("#3a86d8", "#e0701a", "#2a9d6f")
TEXT = "#7d7d7d"
"""Color of text and axes; readable on white and on black."""
NUMBER = r"([+-]?[\d,]*\.?\d+(?:e[+-]\d+)?)%?"
SPREAD = re.compile(
    rf"{NUMBER}(?: ?± ?(?P<error>.+)| [(\[]{NUMBER}(?: to |, ){NUMBER}[)\]])?(?: \*)?"
)


class Page(Section):
    """Columns of a recorded table that the page shows: the field `page` of a claim."""

    labels: list[str]
    """Columns that name a row."""
    columns: list[str]
    """Further columns of the table."""
    figure: list[str]
    """Columns of numbers in the figure."""
    axis: str
    """Name of these numbers, with their unit: label of the figure's axis and alternative text."""
    table: int = 0
    """Position of the table in the record."""
    where: dict[str, str] = Field(default_factory=dict)
    """Cells of the rows that are shown, by column."""
    across: str | None = None
    """Column whose cells become columns of the table, filled with the first of `columns`."""
    series: bool = False
    """`figure` lists cells of `across`, each with its own color, instead of columns."""
    log: bool = False
    """A logarithmic axis in the figure."""


class Dot(NamedTuple):
    """A recorded number with the ends of its spread, which are equal to it without a spread."""

    label: str
    value: float
    low: float
    high: float


def record(name: str) -> dict[str, Any]:
    """Return the record of a claim."""
    path = ROOT / "benchmarks" / "results" / f"{name}.json"
    content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return content


def shown_rows(name: str, page: Page) -> list[dict[str, str]]:
    """Return the rows of the record that the page shows, as cells by column."""
    recorded = record(name)["tables"][page.table]
    rows = [dict(zip(recorded["columns"], cells, strict=True)) for cells in recorded["rows"]]
    return [row for row in rows if page.where.items() <= row.items()]


def number(text: str) -> tuple[float, float, float]:
    """Return the value and the ends of the spread in a cell.

    Args:
        text: A number, 'mean ± error', 'mean (low to high)' or 'mean [low, high]'. Numbers may end
            with a percent sign.

    Raises:
        ValueError: The cell has another form.
    """
    found = SPREAD.fullmatch(text)
    if found is None:
        raise ValueError(f"a cell must be a number, with or without its spread, got {text!r}")
    numbers = [float(part.replace(",", "").rstrip("%")) for part in found.groups() if part]
    if found["error"]:
        value, error = numbers
        return value, value - error, value + error
    value, low, high = numbers if len(numbers) == 3 else numbers * 3
    return value, low, high


def dots(name: str, page: Page) -> dict[str, list[Dot]]:
    """Return the dots of the figure by color: none for an empty cell, all seeds on one line."""
    if page.across is not None and page.series:
        rows = [
            (", ".join(row[each] for each in page.labels), row) for row in shown_rows(name, page)
        ]
        return {
            cell: [
                Dot(label, *number(row[page.columns[0]]))
                for label, row in rows
                if row[page.across] == cell
            ]
            for cell in page.figure
        }
    names = [*page.labels, *([page.across] if page.across not in (None, "seed") else [])]
    rows = [(", ".join(row[each] for each in names), row) for row in shown_rows(name, page)]
    return {
        column: [Dot(label, *number(row[column])) for label, row in rows if row[column]]
        for column in page.figure
    }


def draw(name: str, page: Page, path: Path) -> None:
    """Write the figure: a line per label, and a dot with its spread per recorded number.

    Rows with equal labels, such as those of several seeds, are next to each other on one line. The
    description in the file contains the plotted numbers as JSON.
    """
    series = dots(name, page)
    every = [dot for column in series.values() for dot in column]
    places = {label: place for place, label in enumerate(dict.fromkeys(dot.label for dot in every))}
    with matplotlib.rc_context({"svg.hashsalt": name, "svg.fonttype": "none", "font.size": 11}):
        figure = matplotlib.figure.Figure((7.2, 1.1 + 0.34 * len(places)), layout="constrained")
        axes = figure.subplots()
        for position, (column, own) in enumerate(series.items()):
            color = COLORS[position]
            below = 0.22 * (position - (len(series) - 1) / 2)
            for label, place in places.items():
                same = [dot for dot in own if dot.label == label]
                heights = [
                    place + below + 0.1 * (order - (len(same) - 1) / 2)
                    for order in range(len(same))
                ]
                axes.hlines(heights, [d.low for d in same], [d.high for d in same], color)
                axes.plot([d.value for d in same], heights, "o", color=color, markersize=5)
            axes.plot([], [], "o", color=color, label=column)
        axes.set_yticks(range(len(places)), places)
        axes.set_ylim(len(places) - 0.4, -0.6)
        axes.set_ylabel(", ".join(each for each in page.labels if each))
        axes.set_xscale("log" if page.log else "linear")
        axes.set_xlabel(page.axis)
        if len(series) > 1:
            figure.legend(loc="outside upper center", ncols=len(series), frameon=False,
                          labelcolor=TEXT)  # fmt: skip
        axes.grid(axis="x", color=TEXT, alpha=0.3)
        axes.tick_params(colors=TEXT)
        axes.spines[:].set_color(TEXT)
        for title in (axes.xaxis.label, axes.yaxis.label):
            title.set_color(TEXT)
        path.parent.mkdir(parents=True, exist_ok=True)
        about = json.dumps(series, ensure_ascii=False)
        figure.savefig(path, transparent=True, metadata={"Date": None, "Description": about})


def table_of(name: str, page: Page) -> str:
    """Return the Markdown table of a claim, without bars at the ends of its lines."""
    rows = shown_rows(name, page)
    lines: dict[tuple[str, ...], list[str]] = {}
    for row in rows:
        label = tuple(row[each] for each in page.labels)
        shown = page.columns if page.across is None else page.columns[:1]
        lines.setdefault(label, list(label)).extend(row[each] for each in shown)
    columns = page.columns
    if page.across is not None:
        prefix = "seed " if page.across == "seed" else ""
        columns = list(dict.fromkeys(prefix + row[page.across] for row in rows))
    headers = [*(each or "method" for each in page.labels), *columns]
    rule = "|".join(["---", *["---:"] * (len(headers) - 1)])
    return "\n".join([" | ".join(headers), rule, *map(" | ".join, lines.values())])


def section(name: str, claim: Claim) -> str:
    """Return the part of the page about one claim."""
    page = Page.model_validate(claim.page)
    found = record(name)
    seeds = f"{len(found['seeds'])} seeds, " if found["seeds"] else ""
    held = sum(check.startswith("held") for check in found["checks"])
    checks = f"checks {held}/{len(found['checks'])}, "
    minutes = found.get("cpu_minutes")
    cost = f"{minutes} CPU-minute{'s' * (minutes != 1)}, " if minutes else ""
    about = f"{seeds}{cost}{checks}[record](../../benchmarks/results/{name}.json)"
    parts = [
        f"### {claim.title}",
        claim.interpretation,
        f"![{page.axis[0].upper()}{page.axis[1:]}.](figures/results/{name}.svg)",
        table_of(name, page),
        "    " + re.sub(r" --(figure|json|out) \S+", "", found["command"]),
        about[0].upper() + about[1:],
    ]
    return "\n\n".join(parts)


def markdown() -> str:
    """Return the page."""
    template = TEMPLATE.read_text(encoding="utf-8")
    return re.sub(r"^{(\w+)}$", lambda m: section(m[1], claims.load(m[1])), template, flags=re.M)


if __name__ == "__main__":
    PAGE.write_text(markdown(), encoding="utf-8")
    for each in claims.names():
        shown_part = Page.model_validate(claims.load(each).page)
        draw(each, shown_part, FIGURES / f"{each}.svg")
