"""Claims about training as data: methods, seeds, tables, and the conditions that must hold."""

from __future__ import annotations

import operator
import string
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import yaml
from pydantic import BaseModel, ConfigDict

from benchmarks.records import CONFIGS, Check, OverSeeds, table
from srl_train.config import yaml_file
from srl_train.config.run import RunConfig

FOLDER = Path(__file__).parent / "claims"
Row = Mapping[str, Any]
"""Numbers of one run by name; they may be nested."""
Settings = Mapping[str, Any]
"""Replacements of a configuration's settings, by dotted name."""
RELATIONS: Mapping[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt, "==": operator.eq,
}  # fmt: skip


class Section(BaseModel):
    """A part of a claim's file."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class Target(Section):
    """A threshold that every run, or the runs of all seeds together, must meet."""

    claim: str
    """Template over a row. Rows that give the same text are judged by one check."""
    value: str
    """Path of the number in a row, such as 'gain' or 'after[solved].mean'."""
    relation: Literal[">=", ">", "<=", "<", "=="]
    bound: float
    form: str = "{}"
    where: dict[str, Any] = {}
    """Entries of the rows that are judged."""
    over_seeds: list[str] = []
    """Entries by which rows of several seeds are merged into one (see OverSeeds)."""

    def checks(self, rows: Sequence[Row]) -> list[Check]:
        """Return a check for each text of the claim; raise ValueError if no row matches."""
        values: dict[str, list[float]] = {}
        for row in select(rows, self.where, self.over_seeds):
            values.setdefault(self.claim.format_map(row), []).append(_at(row, self.value))
        if not values:
            raise ValueError(f"no run to judge {self.claim!r} by: no row has {self.where}")
        meets = RELATIONS[self.relation]
        return [
            Check(claim, all(meets(value, self.bound) for value in own), self._seen(own))
            for claim, own in values.items()
        ]

    def _seen(self, values: Sequence[float]) -> str:
        ends = [self.form.format(end(values)) for end in (min, max)]
        return " to ".join(dict.fromkeys(ends)) + (f", {len(values)} runs" * (len(values) > 1))


class Table(Section):
    """One Markdown table of the rows."""

    columns: dict[str, str]
    """Header -> template over a row; the cell is empty where the row lacks an entry."""
    title: str = ""
    where: dict[str, Any] = {}
    over_seeds: list[str] = []

    def cells(self, rows: Sequence[Row]) -> list[list[str]]:
        """Return the lines of the table, one per selected row, each as the texts of its cells."""
        shown = select(rows, self.where, self.over_seeds)
        return [[_cell(template, row) for template in self.columns.values()] for row in shown]

    def markdown(self, rows: Sequence[Row]) -> str:
        """Return the table as Markdown, under its title if any."""
        return f"{self.title}\n\n{table(list(self.columns), self.cells(rows))}".strip()


class Claim(Section):
    """One file of benchmarks/claims."""

    title: str
    measure: str
    """Function, as MODULE.NAME in this package."""
    config: str | None = None
    """File of examples/configs; None starts from the default settings."""
    settings: dict[str, Any] = {}
    """Settings of all methods."""
    methods: dict[str, dict[str, Any]] = {"": {}}
    """Compared methods with their settings. The others are compared with the first."""
    options: dict[str, Any] = {}
    """Arguments of the measurement."""
    seeds: list[int] = [0, 1, 2]
    """Default seeds; empty where a seed has no effect."""
    games: int = 0
    """Default number of evaluation games; 0 where there are none."""
    tables: list[Table]
    checks: list[Target] = []
    legend: str = ""
    """Template over the facts, `seeds` and `games`."""
    interpretation: str = ""
    """Paragraph of the results page, at most 60 words."""
    page: dict[str, Any] = {}
    """Columns in the table and the figure of the results page (docs/project/results_page.py)."""

    def judge(self, result: Result) -> list[Check]:
        """Return the checks of a measured result, in the claim's order."""
        return [check for target in self.checks for check in target.checks(result.rows)]

    def record(self, result: Result, request: Request) -> dict[str, Any]:
        """Return the content of a file of benchmarks/results, without the circumstances."""
        rows = [*result.rows, *result.references]
        facts = {"games": request.games, **result.facts}
        facts["seeds"] = ", ".join(map(str, request.seeds))
        return {
            "seeds": list(request.seeds),
            "tables": [
                {"title": one.title, "columns": list(one.columns), "rows": one.cells(rows)}
                for one in self.tables
            ],
            "legend": self.legend.format_map(facts),
            "checks": list(map(str, self.judge(result))),
        }

    def markdown(self, result: Result, request: Request) -> str:
        """Return the tables and the legend of a measured result as Markdown."""
        rows = [*result.rows, *result.references]
        legend = self.record(result, request)["legend"]
        return "\n\n".join([*(one.markdown(rows) for one in self.tables), legend]).strip()


@dataclass(frozen=True)
class Request:
    """A claim to measure, with the seeds, games and settings that the command line replaced."""

    claim: Claim
    seeds: Sequence[int]
    folder: Path
    """Folder for runs."""
    games: int = 0
    overrides: Settings = field(default_factory=dict)

    def settings(self, method: str, **more: Any) -> dict[str, Any]:
        """Return the settings of a method: the claim's, its own, `more`, and the overrides.

        Later ones replace earlier ones.
        """
        own = self.claim.methods[method]
        return {**self.claim.settings, **own, **more, **self.overrides}

    def config(self, settings: Settings | None = None) -> RunConfig:
        """Return the run configuration with these settings (default: the overrides)."""
        own = self.overrides if settings is None else settings
        if self.claim.config is None:
            return yaml_file.from_tree({}, own)
        return yaml_file.load(CONFIGS / self.claim.config, own)


@dataclass(frozen=True)
class Result:
    """Measured rows, reference rows that are shown but not judged, and facts of the legend."""

    rows: Sequence[Row]
    references: Sequence[Row] = ()
    facts: Row = field(default_factory=dict)


def names() -> list[str]:
    """Return the names of all claims."""
    return sorted(path.stem for path in FOLDER.glob("*.yaml"))


def load(name: str) -> Claim:
    """Return the claim of the file benchmarks/claims/NAME.yaml."""
    text = (FOLDER / f"{name}.yaml").read_text(encoding="utf-8")
    return Claim.model_validate(yaml.safe_load(text))


def select(rows: Sequence[Row], where: Row, over_seeds: Sequence[str] = ()) -> list[Row]:
    """Return the rows with these entries; OverSeeds merge those that agree in `over_seeds`."""
    chosen = [row for row in rows if where.items() <= row.items()]
    if not over_seeds:
        return chosen
    groups: dict[tuple[Any, ...], list[Row]] = {}
    for row in chosen:
        groups.setdefault(tuple(row[name] for name in over_seeds), []).append(row)
    return [
        {
            name: OverSeeds(row[name] for row in own) if isinstance(value, float) else value
            for name, value in own[0].items()
        }
        for own in groups.values()
    ]


def _at(row: Row, path: str) -> Any:
    return string.Formatter().get_field(path, (), row)[0]


def _cell(template: str, row: Row) -> str:
    paths = [name for _, name, _, _ in string.Formatter().parse(template) if name]
    try:
        known = all(_at(row, path) is not None for path in paths)
    except KeyError:
        return ""
    return template.format_map(row) if known else ""
