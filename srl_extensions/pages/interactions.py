"""Interaction graphs of a run over time, from its sample episodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from srl_agents.episode import read_jsonl
from srl_agents.errors import EpisodeError
from srl_agents.evaluation.interaction_graphs import MEASURES, Graph, Measure
from srl_agents.evaluation.interactions import Interactions, Observed, graphs, observe
from srl_extensions.pages.document import Block, Figure, InteractionGraph, Notes
from srl_extensions.pages.run_folder import RecordedRun

PERIODS = 6
"""Number of graphs over time at most; fewer if a graph would have fewer than FILES files."""
FILES = 3
"""Number of files of sample episodes per graph, evenly spread over its rounds."""
READING = (
    "Blue: above zero, orange: below; the wider, the more. Pale and dashed: the 95 % interval "
    "includes zero. Intervals are corrected for the number of arrows."
)


def interactions(run: RecordedRun, *, trusted: bool = False) -> list[Block]:
    """Return a drawing per measure with a slider over time, and what could not be measured.

    Args:
        run: Run whose sample episodes are played again.
        trusted: Whether code that the records name may be loaded.
    """
    files = run.sample_files
    parts = np.array_split(np.arange(len(files)), max(1, min(PERIODS, len(files) // FILES)))
    notes: list[str] = []
    found: list[tuple[str, Interactions]] = []
    for part in parts if files else ():
        spread = np.linspace(part[0], part[-1], min(FILES, len(part))).round().astype(int)
        chosen = [files[place] for place in sorted(set(spread.tolist()))]
        games: list[Observed] = []
        for path in chosen:
            try:
                for episode in read_jsonl(path):
                    if episode.failure is None:
                        games.append(_renamed(observe(episode, trusted=trusted), run.models))
            except (EpisodeError, OSError) as error:
                notes.append(f"{path.name}: {error}")
        first, last = (path.stem.rpartition("_")[2].lstrip("0") or "0" for path in
                       (chosen[0], chosen[-1]))  # fmt: skip
        period = f"Round {first}" if first == last else f"Round {first} to {last}"
        found.append((f"{period} · {len(games)} games", graphs(games)))
    reasons = [reason for _, one in found for reason in one.not_replayed]
    drawings = [
        _drawing(measure, [(label, one.graph(measure.name)) for label, one in found])
        for measure in MEASURES.values()
        if any(one.graph(measure.name) for _, one in found)
    ]
    if not drawings and not reasons:
        return []
    lines = list(dict.fromkeys(notes + reasons))
    missing = [Notes("Not all games could be played again.", lines)] if lines else []
    return [*([Figure(drawings, READING)] if drawings else []), *missing]


def _renamed(game: Observed, models: Sequence[str]) -> Observed:
    """Return the game with all past versions of a model under one name."""
    players = dict(game.players)
    for agent, name in players.items():
        model, at, _ = name.partition("@")
        if at and model in models:
            players[agent] = f"past {model}"
    return replace(game, players=players)


def _drawing(measure: Measure, over_time: Sequence[tuple[str, Graph | None]]) -> InteractionGraph:
    """Return the drawing of a measure, from the label and graph of each period."""
    players = sorted({name for _, graph in over_time if graph for name in graph.players})
    periods: list[dict[str, Any]] = []
    for label, graph in over_time:
        arrows = []
        for edge in graph.edges if graph else ():
            low, high = edge.interval or (math.nan, math.nan)
            arrows.append({
                "source": players.index(edge.source), "target": players.index(edge.target),
                "value": edge.value, "low": low, "high": high, "games": edge.games,
                "sure": edge.sure,
            })  # fmt: skip
        periods.append({"label": label, "arrows": arrows})
    return InteractionGraph(measure.title, measure.how, measure.unit, players, periods)
