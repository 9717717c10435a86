"""Drawings of a monitor's file: rewards and interaction graphs over rounds, as a page or PNG."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core_srl.arguments import path
from core_srl.monitoring.monitor import STARTED
from srl_agents.evaluation.interactions import MEASURES
from srl_train.errors import ConfigError
from srl_train.metrics import read_metrics
from srl_train.metrics.errors import MetricsError
from srl_train.metrics.report import page
from srl_train.metrics.report.document import (
    Arrow,
    Document,
    Figure,
    InteractionGraph,
    Line,
    Panel,
    Period,
    Section,
    smoothing_window,
)
from srl_train.metrics.report.interactions import READING
from srl_train.metrics.run_folder import number_at

LONGEST = 40
"""Characters of a run's name in a title."""


class GraphVisualizer:
    """Draws what the newest session of a UnifiedMonitor wrote into `log_file`.

    Raises ConfigError for what is no path; the other methods raise MetricsError where the file is
    not there or is damaged.
    """

    def __init__(self, log_file: str) -> None:
        self.log_file = Path(path("log_file", log_file))

    def rows(self) -> list[dict[str, Any]]:
        """The lines of the newest session, in order."""
        if not self.log_file.exists():
            raise MetricsError(
                f"{self.log_file} is not there: give the log_file_path of a monitor that was "
                "started"
            )
        lines = read_metrics(self.log_file)
        begins = [place for place, line in enumerate(lines) if STARTED in line]
        return lines[begins[-1] + 1 :] if begins else lines

    def runs(self) -> list[str]:
        """The runs that were heard, in order of their first line."""
        return list(dict.fromkeys(str(row.get("run", "")) for row in self.rows()))

    def draw(self, out: str | Path | None = None) -> Path:
        """Write the drawing and say where: a page that holds everything (`log_file` with .html
        where not given), or a PNG file of the last graphs, as the name ends.

        Raises ConfigError for another ending, PlotsError for a PNG file without matplotlib.
        """
        place = self.log_file.with_suffix(".html") if out is None else Path(path("out", out))
        if place.suffix not in (".html", ".png"):
            raise ConfigError(f"out is {str(place)!r}: give a name that ends in .html or .png")
        rows = self.rows()
        runs = {
            run: _figure([row for row in rows if str(row.get("run", "")) == run])
            for run in self.runs()
        }
        if place.suffix == ".html":
            sections = [Section(_title(run), [figure]) for run, figure in runs.items()]
            return page.write(Document("Monitored", str(self.log_file), [], sections), place)
        from srl_train.metrics.report.plots import save_png

        drawings = [one for figure in runs.values() for one in figure.drawings]
        if not drawings:
            raise MetricsError(f"{self.log_file} has no round yet: there is nothing to draw")
        return save_png(drawings, place)


def create_graph_visualizer(log_file: str) -> GraphVisualizer:
    """Draws the file of a monitor."""
    return GraphVisualizer(log_file)


def _title(run: str) -> str:
    return f"Run {run[-LONGEST:]}" if run else "Run"


def _figure(rows: Sequence[Mapping[str, Any]]) -> Figure:
    rewards = _rewards([row for row in rows if "environment" in row])
    graphs = _graphs([row for row in rows if "interactions" in row])
    return Figure([*rewards, *graphs], READING if graphs else "")


def _rewards(rounds: Sequence[Mapping[str, Any]]) -> list[Panel]:
    """Each model's raw reward per agent and step; nothing before the first round."""
    models = {str(name) for row in rounds for name in _mapping(row.get("models"))}
    numbers = [number_at(row, "round") for row in rounds]
    lines = [
        Line(name, numbers, [number_at(row, "models", name, "raw_reward") for row in rounds])
        for name in sorted(models)
    ]
    window = smoothing_window(len(rounds))
    return [Panel("Raw reward", lines, window=window)] if lines else []


def _graphs(rows: Sequence[Mapping[str, Any]]) -> list[InteractionGraph]:
    """A graph per measure of which there is anything."""
    drawn = []
    for measure in MEASURES.values():
        by_row = [
            [edge for edge in _entries(row) if edge.get("measure") == measure.name] for row in rows
        ]
        ends = ("source", "target")
        names = sorted({str(edge.get(end)) for own in by_row for edge in own for end in ends})
        if names:
            number = {name: place for place, name in enumerate(names)}
            periods = [
                Period(_label(row), [_arrow(edge, number) for edge in own])
                for row, own in zip(rows, by_row, strict=True)
            ]
            drawn.append(
                InteractionGraph(
                    measure.title, measure.how, measure.unit, names, periods, measure.directed
                )
            )
    return drawn


def _label(row: Mapping[str, Any]) -> str:
    rounds = row.get("rounds")
    first, last = rounds if isinstance(rounds, list) and len(rounds) == 2 else ("?", "?")
    when = f"Round {first}" if first == last else f"Round {first} to {last}"
    return f"{when} · {row.get('games')} games"


def _arrow(edge: Mapping[str, Any], number: Mapping[str, int]) -> Arrow:
    interval = edge.get("interval")
    low, high = (
        (number_at({"end": end}, "end") for end in interval)
        if isinstance(interval, list) and len(interval) == 2
        else (math.nan, math.nan)
    )
    source, target = (number[str(edge.get(end))] for end in ("source", "target"))
    games = edge.get("games")
    return Arrow(
        source,
        target,
        number_at(edge, "value"),
        low,
        high,
        games if isinstance(games, int) else 0,
        low > 0.0 or high < 0.0,
    )


def _entries(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    entries = row.get("interactions")
    return [one for one in entries if isinstance(one, Mapping)] if isinstance(entries, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
