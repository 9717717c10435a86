"""Page of a monitor's file: rewards and interaction graphs over rounds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from core_srl.arguments import path
from core_srl.monitoring.monitor import STARTED
from srl_agents.evaluation.interaction_graphs import MEASURES, Edge, Graph, Measure
from srl_extensions.pages.interactions import READING, drawing
from srl_train.errors import ConfigError
from srl_train.metrics import page, read_metrics
from srl_train.metrics.document import (
    Document,
    Figure,
    InteractionGraph,
    Line,
    Panel,
    Section,
    smoothing_window,
)
from srl_train.metrics.errors import MetricsError
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
        """Write a page with all rewards and graphs, and return its path.

        Args:
            out: File to write, with the ending .html; `log_file` with .html by default.

        Raises:
            ConfigError: For another ending.
        """
        place = self.log_file.with_suffix(".html") if out is None else Path(path("out", out))
        if place.suffix != ".html":
            raise ConfigError(f"out must end in .html, got {str(place)!r}")
        rows = self.rows()
        sections = [
            Section(_title(run), [_figure([row for row in rows if str(row.get("run", "")) == run])])
            for run in self.runs()
        ]
        return page.write(Document("Monitored", str(self.log_file), [], sections), place)


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
    """A drawing per measure of which there is anything."""
    drawn = []
    for measure in MEASURES.values():
        over_time = [(_label(row), _graph(measure, row)) for row in rows]
        if any(graph.edges for _, graph in over_time):
            drawn.append(drawing(measure, over_time))
    return drawn


def _graph(measure: Measure, row: Mapping[str, Any]) -> Graph:
    edges = [_edge(one) for one in _entries(row) if one.get("measure") == measure.name]
    players = {end for edge in edges for end in (edge.source, edge.target)}
    return Graph(measure, tuple(sorted(players)), tuple(edges))


def _label(row: Mapping[str, Any]) -> str:
    rounds = row.get("rounds")
    first, last = rounds if isinstance(rounds, list) and len(rounds) == 2 else ("?", "?")
    when = f"Round {first}" if first == last else f"Round {first} to {last}"
    return f"{when} · {row.get('games')} games"


def _edge(entry: Mapping[str, Any]) -> Edge:
    interval, games = entry.get("interval"), entry.get("games")
    ends = interval if isinstance(interval, list) else []
    known = [number_at({"end": end}, "end") for end in ends]
    return Edge(
        str(entry.get("source")),
        str(entry.get("target")),
        number_at(entry, "value"),
        (known[0], known[1]) if len(known) == 2 else None,
        games if isinstance(games, int) else 0,
    )


def _entries(row: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    entries = row.get("interactions")
    return [one for one in entries if isinstance(one, Mapping)] if isinstance(entries, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
