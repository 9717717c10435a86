"""Page and terminal output of a cross-play: payoff matrices and rankings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from srl_extensions.judging.shared import with_interval
from srl_extensions.pages.document import (
    Block,
    Document,
    Heatmap,
    PageSection,
    Table,
    Text,
    table,
)
from srl_train.metrics.tables import MISSING, number

PAYOFFS = "raw return per agent and episode of the row's player with the column's player"
RANKINGS = {
    "mean_return": "return with others",
    "won": "games won",
    "alpha_rank": "alpha-rank",
    "nash_weight": "Nash weight",
    "nash_value": "Nash value",
}


def page(record: Mapping[str, Any]) -> Document:
    """Return the page of the record that results.json contains."""
    names = [one["name"] for one in record["players"]]
    sections = [
        PageSection(arena["name"], [_matrix(arena), *_tables(arena)]) for arena in record["arenas"]
    ]
    return Document(f"Cross-play of {len(names)} players", " · ".join(names), [], sections)


def table_of_arena(arena: Mapping[str, Any]) -> str:
    """Return the results of one environment as text for a terminal."""
    names, title = arena["players"], f"{arena['name']}: {PAYOFFS} (95 % interval)"
    numbers = [f"[{number}]" for number in range(1, len(names) + 1)]
    rows = [
        [f"{label} {name}", *map(_mean_in_words, row)]
        for label, name, row in zip(numbers, names, arena["matrix"], strict=True)
    ]
    return as_text([Table(["", *numbers], rows, title), *_tables(arena)])


def as_text(blocks: Sequence[Block]) -> str:
    """Return texts and tables for a terminal, each after an empty line."""
    lines: list[str] = []
    for block in blocks:
        if isinstance(block, Text):
            lines += ["", block.text]
        elif isinstance(block, Table):
            lines += ["", *block.lines()]
    return "\n".join(lines)


def _tables(arena: Mapping[str, Any]) -> list[Block]:
    """Return rankings and failures of one environment."""
    rankings = arena["rankings"]
    failed = [game for game in arena["games"] if game["failure"] is not None]
    blocks: list[Block] = []
    if rankings is not None:
        rows = [
            (name, *(MISSING if own[key] is None else f"{own[key]:z.3f}" for key in RANKINGS))
            for name, own in rankings.items()
        ]
        title = "Rankings; alpha-rank and Nash use the return of the row minus that of the column"
        blocks.append(table(["player", *RANKINGS.values()], rows, title))
    if failed:
        first = failed[0]
        blocks.append(Text(
            f"{len(failed)} of {len(arena['games'])} games failed and are excluded. The first is "
            f"{first['first']} with {first['second']}: {first['failure']}"
        ))  # fmt: skip
    return blocks


def _matrix(arena: Mapping[str, Any]) -> Block:
    def note(ends: Sequence[float] | None) -> str:
        return "" if ends is None else f"{number(ends[0])} to {number(ends[1])}"

    return Heatmap(
        f"Mean {PAYOFFS}; below it, the 95 % interval.",
        arena["players"],
        values=[[cell["mean"] for cell in row] for row in arena["matrix"]],
        notes=[[note(cell["interval"]) for cell in row] for row in arena["matrix"]],
    )


def _mean_in_words(cell: Mapping[str, Any]) -> str:
    return (
        MISSING if cell["mean"] is None else with_interval(cell["mean"], cell["interval"], "z.3f")
    )
