"""Interaction graphs of a run over time, from its sample episodes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from srl_agents.episode import read_jsonl
from srl_agents.errors import EpisodeError
from srl_agents.evaluation.interactions import (
    FEWEST,
    MEASURES,
    Graph,
    Interactions,
    Measure,
    Observed,
    graphs,
    observe,
)
from srl_train.metrics.document import (
    Arrow,
    Block,
    Figure,
    InteractionGraph,
    Notes,
    Period,
)
from srl_train.metrics.run_folder import Run, sample_label

PERIODS = 6
"""Stretches of rounds at most that graphs are drawn of; fewer where they had fewer than FILES."""
FILES = 3
"""Files of sample episodes at most that each is measured from, evenly spread."""
READING = (
    "Blue: above zero, orange: below; the wider, the more. Pale and dashed: the 95 % interval, "
    f"games drawn anew, holds zero, or there are fewer than {FEWEST} games; of twenty arrows that "
    "are nothing, one may not look so."
)


class Stamp(NamedTuple):
    """A file as it stood when it was read."""

    path: Path
    modified: int
    size: int


def interactions(run: Run, *, trusted: bool = False) -> list[Block]:
    """A drawing per measure, with a slider over time, and what could not be measured.

    Played again are only records that name no code, unless they are `trusted`. What has been read
    is kept while the files stay as they are.
    """
    files = run.sample_files
    parts = np.array_split(np.arange(len(files)), max(1, min(PERIODS, len(files) // FILES)))
    chosen = tuple(
        tuple(_stamp(files[part[place]]) for place in _spread(len(part)))
        for part in parts
        if len(part)
    )
    return list(_blocks(chosen, run.models, trusted))


def _spread(count: int) -> list[int]:
    return sorted(set(np.linspace(0, count - 1, min(FILES, count)).round().astype(int).tolist()))


def _stamp(path: Path) -> Stamp:
    found = path.stat()
    return Stamp(path, found.st_mtime_ns, found.st_size)


@lru_cache(maxsize=16)
def _blocks(
    periods: Sequence[Sequence[Stamp]], models: Sequence[str], trusted: bool
) -> tuple[Block, ...]:
    notes: list[str] = []
    found: list[tuple[str, Interactions]] = []
    for files in periods:
        games: list[Observed] = []
        for file in files:
            own, told = _observed(file, trusted)
            games += [_named(game, models) for game in own]
            notes += told
        first, last = (sample_label(files[place].path) for place in (0, -1))
        when = first if first == last else f"{first} to {last.rpartition(' ')[2]}"
        found.append((f"{when.capitalize()} · {len(games)} games", graphs(games)))
    notes += [why for _, one in found for why in one.not_replayed]
    drawings = [
        drawing(measure, [(label, one.graph(measure.name)) for label, one in found])
        for measure in MEASURES.values()
        if any(one.graph(measure.name) for _, one in found)
    ]
    if not drawings:
        return ()
    reasons = list(dict.fromkeys(notes))
    return (
        Figure(drawings, READING),
        *([Notes("Not all games could be played again.", reasons)] if reasons else []),
    )


@lru_cache(maxsize=512)
def _observed(file: Stamp, trusted: bool) -> tuple[tuple[Observed, ...], tuple[str, ...]]:
    """The games of a file that can be used, and what is to be said of the others."""
    games, notes = [], []
    try:
        for episode in read_jsonl(file.path):
            if episode.failure is None:
                games.append(observe(episode, trusted=trusted))
    except (EpisodeError, OSError) as error:
        notes.append(f"{file.path.name}: {error}")
    return tuple(games), tuple(notes)


def _named(game: Observed, models: Sequence[str]) -> Observed:
    """The game with all past versions of a model, of an opponent pool, under one name."""
    players = dict(game.players)
    for agent, name in players.items():
        model, at, _ = name.partition("@")
        if at and model in models:
            players[agent] = f"past {model}"
    return replace(game, players=players)


def drawing(measure: Measure, over_time: Sequence[tuple[str, Graph | None]]) -> InteractionGraph:
    """A measure's graphs, one for each label of a time; None where there was nothing to measure."""
    players = sorted({name for _, graph in over_time if graph for name in graph.players})
    number = {name: place for place, name in enumerate(players)}
    return InteractionGraph(
        measure.title,
        measure.how,
        measure.unit,
        players,
        [
            Period(
                label,
                [
                    Arrow(
                        number[edge.source],
                        number[edge.target],
                        edge.value,
                        *(edge.interval or (math.nan, math.nan)),
                        edge.games,
                        edge.sure,
                    )
                    for edge in (graph.edges if graph else ())
                ],
            )
            for label, graph in over_time
        ],
        measure.directed,
    )
