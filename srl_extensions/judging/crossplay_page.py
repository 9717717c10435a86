"""Page and terminal tables of a cross-play: heat maps, ratings and gaps."""

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
from srl_train.metrics.tables import MISSING, aligned, number

SHOWN_FAILURES = 20
NO_MATCH = "no ratings: a match requires three players, or an environment that names winners."
NO_OPENSKILL = f"no ratings: OpenSkill is not installed: {pip_line('judge')}."
RANKINGS = {"alpha_rank": "alpha-rank", "nash_weight": "Nash weight", "nash_value": "Nash value"}


def page(record: Mapping[str, Any]) -> Document:
    """Return the page of a results.json."""
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
        title = f"{len(failed)} games failed and are not counted; the first {SHOWN_FAILURES}"
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
    """Return the results of one environment as lines of text."""
    names = arena["players"]
    numbers = [f"[{number}]" for number in range(1, len(names) + 1)]
    lines = [
        f"\n{arena['name']}: raw return per agent of the row's player, playing with the column's, "
        "+- half of the 95 % interval"
    ]
    rows = [["", *numbers]]
    for label, name, row in zip(numbers, names, arena["matrix"], strict=True):
        rows.append([f"{label} {name}", *map(_mean_in_words, row)])
    lines += [*aligned(rows), *as_lines(_tables(arena))]
    failed = arena["failed"]
    if failed:
        first = failed[0]
        lines.append(
            f"{len(failed)} of {len(arena['games'])} games failed and are not counted; the first, "
            f"{first['first']} with {first['second']}: {first['failure']}"
        )
    return "\n".join(lines)


def ratings(rated: Mapping[str, Any] | None, rankings: Mapping[str, Any] | None) -> list[Block]:
    """Return the table of ratings and rankings.

    Args:
        rated: Ratings, or None without OpenSkill.
        rankings: Player to rankings, or None.
    """
    missing = NO_OPENSKILL if rated is None else NO_MATCH
    if rated is None:
        rated = {"matches": 0, "ratings": [{"player": name} for name in rankings or ()]}
    matches = rated["matches"]
    headers = [
        "player",
        *(["rating", "95 % interval"] if matches else ()),
        *(RANKINGS.values() if rankings is not None else ()),
    ]
    rows = []
    for one in rated["ratings"]:
        row = [one["player"]]
        if matches:
            row += [f"{one['mu']:.2f}", "{:.2f} to {:.2f}".format(*one["interval"])]
        if rankings is not None:
            row += [f"{rankings[one['player']][key]:z.3f}" for key in RANKINGS]
        rows.append(row)
    shown = [table(headers, rows)] if len(headers) > 1 else []
    if not matches:
        return [*([Text("Rankings", "heading")] if shown else ()), *shown, Text(missing)]
    heading = f"Ratings by {rated['by']}, over {matches} matches"
    return [Text(heading, "heading"), *shown]


def as_lines(blocks: Sequence[Block]) -> list[str]:
    """Return the texts and tables among the blocks as lines for a terminal."""
    found: list[str] = []
    for block in blocks:
        if isinstance(block, Text):
            found.append(block.text)
        elif isinstance(block, Table):
            found += aligned([block.headers, *block.rows])
    return found


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
        headers = ["method", "seeds", "self-play", "cross-play", "gap", "95 % interval"]
        blocks += [
            Text("Self-play and cross-play of independent seeds", "heading"),
            table(headers, rows),
        ]
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
        "Raw return per agent and episode of the row's player, playing with the column's, "
        "and its 95 % interval",
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
