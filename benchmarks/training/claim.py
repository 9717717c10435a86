"""A measured claim as data: what is run, the tables of it, and what must hold on every seed."""

from __future__ import annotations

import operator
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import figures
from benchmarks.records import Check, table
from benchmarks.repeats import OverSeeds
from srl_extensions.pages.plots import save_png
from srl_train.metrics.document import Line, Panel

Row = Mapping[str, Any]
"""One run's numbers by name; they may be nested."""
RELATIONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt, "==": operator.eq,
}  # fmt: skip


@dataclass(frozen=True)
class Request:
    """What a measurement is asked for."""

    seeds: Sequence[int]
    folder: Path
    """Where runs are written."""
    games: int = 0
    """Evaluation games, of which nobody learns."""
    overrides: Mapping[str, Any] = field(default_factory=dict)
    """Settings on top of the claim's configuration, by dotted name."""


@dataclass(frozen=True)
class Result:
    """What was measured."""

    rows: Sequence[Row]
    """One per run: these are judged."""
    references: Sequence[Row] = ()
    """Scripted players and the like: shown below the runs."""
    facts: Row = field(default_factory=dict)
    """What the legend names beside."""


@dataclass(frozen=True)
class Target:
    """A threshold that every run has to meet by itself."""

    claim: str
    """A template over a row; one check is made for each text that comes of it."""
    value: str
    """Where in a row the number stands: 'gain', 'after[solved].mean'."""
    relation: str
    bound: float
    form: str = "{}"
    """How the number reads."""
    where: Row = field(default_factory=dict)
    """The rows it is about: those with these entries."""
    over_seeds: Sequence[str] = ()
    """Where given, rows that agree in these entries are judged as one, see OverSeeds."""

    def checks(self, rows: Sequence[Row]) -> list[Check]:
        """The claim judged on every row; raises ValueError where no row is concerned."""
        values: dict[str, list[float]] = {}
        for row in _chosen(rows, self.where, self.over_seeds):
            values.setdefault(self.claim.format_map(row), []).append(_at(row, self.value))
        if not values:
            raise ValueError(f"no run to judge {self.claim!r} by: none has {dict(self.where)}")
        meets = RELATIONS[self.relation]
        return [
            Check(claim, all(meets(value, self.bound) for value in own), self._seen(own))
            for claim, own in values.items()
        ]

    def _seen(self, values: Sequence[float]) -> str:
        ends = [self.form.format(end(values)) for end in (min, max)]
        return " to ".join(dict.fromkeys(ends)) + (f", {len(values)} runs" * (len(values) > 1))


@dataclass(frozen=True)
class Table:
    """One Markdown table of the rows."""

    columns: Mapping[str, str]
    """Header -> a template over a row; empty in rows that have no such entry."""
    title: str = ""
    where: Row = field(default_factory=dict)
    """The rows it shows: those with these entries."""
    over_seeds: Sequence[str] = ()
    """Where given, rows that agree in these entries are one line, see OverSeeds."""

    def markdown(self, rows: Sequence[Row]) -> str:
        """The table, under its title."""
        shown = _chosen(rows, self.where, self.over_seeds)
        lines = [[_cell(template, row) for template in self.columns.values()] for row in shown]
        text = table(list(self.columns), lines)
        return f"{self.title}\n\n{text}" if self.title else text


@dataclass(frozen=True)
class Curves:
    """A figure: one curve per value of `by`, over the rounds, the mean of the seeds.

    A row's `curve` has one number per round, None where a round has none.
    """

    title: str
    by: str
    percent: bool = False

    def lines(self, rows: Sequence[Row]) -> list[Line]:
        """One per label: the mean of every round that has a number."""
        found: dict[str, list[Row]] = {}
        for row in rows:
            found.setdefault(row[self.by], []).append(row)
        lines = []
        for label, own in found.items():
            columns = zip(*(row["curve"] for row in own), strict=True)
            known = [[value for value in column if value is not None] for column in columns]
            means = {x: sum(ys) / len(ys) for x, ys in enumerate(known) if ys}
            lines.append(Line(label, list(means), list(means.values())))
        return lines

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """The figure as a PNG file."""
        panel = Panel(self.title, self.lines(rows), percent=self.percent)
        save_png([panel], path, columns=1)


@dataclass(frozen=True)
class Intervals:
    """A figure: one panel per value of `across`, with an estimate and its interval per value of
    `by`."""

    by: str
    across: str
    estimate: Callable[[Sequence[Row]], tuple[float, float, float]]
    """(value, low, high) of some rows."""
    where: Row = field(default_factory=dict)
    """The rows it shows: those with these entries."""

    def panels(self, rows: Sequence[Row]) -> dict[str, dict[str, tuple[float, float, float]]]:
        """Panel -> label -> (value, low, high)."""
        found: dict[str, dict[str, list[Row]]] = {}
        for row in _chosen(rows, self.where):
            found.setdefault(row[self.across], {}).setdefault(row[self.by], []).append(row)
        return {
            panel: {label: self.estimate(own) for label, own in labels.items()}
            for panel, labels in found.items()
        }

    def draw(self, rows: Sequence[Row], path: Path) -> None:
        """The figure as a PNG file."""
        figures.draw_intervals(self.panels(rows), path)


@dataclass(frozen=True)
class Claim:
    """One entry of the table of claims."""

    measure: Callable[[Request], Result]
    tables: Sequence[Table]
    targets: Sequence[Target] = ()
    legend: str = ""
    """A template over the facts, `seeds` and `games`."""
    seeds: Sequence[int] = (0, 1, 2)
    """Those measured where none are asked for; none where a seed means nothing."""
    games: int = 0
    """Evaluation games where no number is asked for; 0 where there are none."""
    writes_runs: bool = False
    """Whether folders of runs are left in the request's folder."""
    figure: Curves | Intervals | None = None

    def checks(self, result: Result) -> list[Check]:
        """Every target, judged."""
        return [check for target in self.targets for check in target.checks(result.rows)]

    def markdown(self, result: Result, request: Request) -> str:
        """The tables and the legend."""
        rows = [*result.rows, *result.references]
        parts = [one.markdown(rows) for one in self.tables]
        seeds = ", ".join(map(str, request.seeds))
        parts.append(
            self.legend.format_map({"games": request.games, **result.facts, "seeds": seeds})
        )
        return "\n\n".join(part for part in parts if part)


def _chosen(rows: Sequence[Row], where: Row, over_seeds: Sequence[str] = ()) -> list[Row]:
    chosen = [row for row in rows if where.items() <= row.items()]
    return _merged(chosen, over_seeds) if over_seeds else chosen


def _merged(rows: Sequence[Row], by: Sequence[str]) -> list[Row]:
    """One row for all that agree in `by`, whose numbers are all of theirs."""
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        groups.setdefault(tuple(row[name] for name in by), []).append(row)
    return [
        {
            name: OverSeeds(row[name] for row in own) if isinstance(value, float) else value
            for name, value in own[0].items()
        }
        for own in groups.values()
    ]


def _at(row: Row, place: str) -> Any:
    return string.Formatter().get_field(place, (), row)[0]


def _cell(template: str, row: Row) -> str:
    places = [name for _, name, _, _ in string.Formatter().parse(template) if name]
    try:
        known = all(_at(row, place) is not None for place in places)
    except KeyError:
        return ""
    return template.format_map(row) if known else ""
