"""Page and terminal output of a cross-play: payoff matrices, ratings, rankings and gaps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from srl_envs.loading import pip_line
from srl_extensions.pages.document import (
    Block,
    Document,
    Heatmap,
    Notes,
    PageSection,
    Table,
    Text,
    table,
)
from srl_train.metrics.tables import MISSING, number

SHOWN_FAILURES = 20
PAYOFFS = "raw return per agent and episode of the row's player with the column's player"
NO_MATCH = "No ratings: they require three players, or an environment that names winners."
NO_OPENSKILL = f"No ratings: OpenSkill is not installed. Install it with {pip_line('judge')}."
RANKINGS = {"alpha_rank": "alpha-rank", "nash_weight": "Nash weight", "nash_value": "Nash value"}


def page(record: Mapping[str, Any]) -> Document:
    """Return the page of the record that results.json contains."""
    arenas = record["arenas"]
    names = [one["name"] for one in record["players"]]
    failed = [
        f"{arena['name']}: {one['first']} with {one['second']}, start {one['start']}: "
        f"{one['failure']}"
        for arena in arenas
        for one in arena["failed"]
    ]
    notes: list[Block] = []
    if failed:
        title = f"{len(failed)} games failed and are excluded"
        if len(failed) > SHOWN_FAILURES:
            title += f"; the first {SHOWN_FAILURES}"
        notes = [Notes(title, failed[:SHOWN_FAILURES])]
    sections = []
    if record["overall"] is not None:
        blocks = ratings(record["overall"], None)
        sections = [PageSection("Ratings over all environments", blocks)]
    for arena in arenas:
        blocks = [_matrix(arena), *_tables(arena)]
        sections.append(PageSection(arena["name"], blocks))
    return Document(f"Cross-play of {len(names)} players", " · ".join(names), notes, sections)


def table_of_arena(arena: Mapping[str, Any]) -> str:
    """Return the results of one environment as text for a terminal."""
    names, title = arena["players"], f"{arena['name']}: {PAYOFFS}, +- half of the 95 % interval"
    numbers = [f"[{number}]" for number in range(1, len(names) + 1)]
    rows = [
        [f"{label} {name}", *map(_mean_in_words, row)]
        for label, name, row in zip(numbers, names, arena["matrix"], strict=True)
    ]
    blocks = [Table(["", *numbers], rows, title), *_tables(arena)]
    failed = arena["failed"]
    if failed:
        first = failed[0]
        blocks.append(Text(
            f"{len(failed)} of {len(arena['games'])} games failed and are excluded. The first is "
            f"{first['first']} with {first['second']}: {first['failure']}"
        ))  # fmt: skip
    return as_text(blocks)


def ratings(rated: Mapping[str, Any] | None, rankings: Mapping[str, Any] | None) -> list[Block]:
    """Return a table with the ratings and rankings of the players.

    Args:
        rated: Ratings as of `rate`, or None without OpenSkill.
        rankings: Player to rankings, or None without rankings.
    """
    if rated is not None and rated["matches"]:
        rows = {
            one["player"]: [f"{one['mu']:.2f}", "{:.2f} to {:.2f}".format(*one["interval"])]
            for one in rated["ratings"]
        }
        title = f"OpenSkill ratings from {rated['matches']} matches, compared by {rated['by']}"
        headers, missing = ["rating", "95 % interval"], []
    else:
        rows = {name: [] for name in rankings or ()}
        title, headers, missing = (
            "Rankings",
            [],
            [Text(NO_OPENSKILL if rated is None else NO_MATCH)],
        )
    if rankings is not None:
        headers = [*headers, *RANKINGS.values()]
        for name, row in rows.items():
            row += [f"{rankings[name][key]:z.3f}" for key in RANKINGS]
    shown = [table(["player", *headers], [[name, *row] for name, row in rows.items()], title)]
    return [*(shown if headers else ()), *missing]


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
    """Return ratings, rankings and gaps of one environment."""
    blocks = ratings(arena["ratings"], arena["rankings"])
    if arena["gaps"]:
        rows = [
            (
                gap["group"],
                len(gap["players"]),
                *(f"{gap[key]:z.3f}" for key in ("self_play", "cross_play", "gap")),
                _interval(gap["interval"]),
            )
            for gap in arena["gaps"]
        ]
        headers = ["method", "seeds", "self-play", "cross-play", "gap", "95 % interval of the gap"]
        blocks.append(table(headers, rows, "Self-play and cross-play between seeds of a method"))
    return blocks


def _matrix(arena: Mapping[str, Any]) -> Block:
    def each(of_cell: Any) -> list[list[Any]]:
        return [[of_cell(cell) for cell in row] for row in arena["matrix"]]

    def hint(cell: Mapping[str, Any]) -> str:
        return (
            f"{cell['row']} with {cell['column']}: {number(cell['mean'])}, 95 % interval "
            f"{_interval(cell['interval'])}, {cell['games']} games, {cell['failed']} failed"
        )

    return Heatmap(
        f"Mean {PAYOFFS}; below it, the 95 % interval.",
        arena["players"],
        values=each(lambda cell: cell["mean"]),
        notes=each(lambda cell: "" if cell["interval"] is None else _interval(cell["interval"])),
        hints=each(hint),
    )


def _mean_in_words(cell: Mapping[str, Any]) -> str:
    if cell["mean"] is None:
        return "-"
    if cell["interval"] is None:
        return f"{cell['mean']:z.3f}"
    low, high = cell["interval"]
    return f"{cell['mean']:z.3f} +- {(high - low) / 2:z.3f}"


def _interval(ends: Sequence[float] | None) -> str:
    return MISSING if ends is None else f"{number(ends[0])} to {number(ends[1])}"
