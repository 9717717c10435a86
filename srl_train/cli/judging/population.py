"""Page of a cross-play: heat maps, ratings with their history, gaps, best and worst games."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from srl_envs.loading import pip_line
from srl_train.metrics.document import (
    MISSING,
    Block,
    Details,
    Document,
    Figure,
    HeatMap,
    Line,
    Notes,
    Panel,
    Section,
    Table,
    Text,
    Transcript,
    number,
    share,
    table,
)

SHOWN_FAILURES = 20
NO_MATCH = "no ratings: a match takes three players, or a game that names winners"
NO_OPENSKILL = f"no ratings: they need OpenSkill: {pip_line('judge')}"
RANKINGS = {"alpha_rank": "alpha-rank", "nash_weight": "Nash weight", "nash_value": "Nash value"}


def population(
    record: Mapping[str, Any], games: Mapping[str, Sequence[tuple[str, Transcript]]]
) -> Document:
    """The results of `srl crossplay` as a document for the page.

    `games`: arena -> (which one it is, its transcript), best and worst.
    """
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
        more = len(failed) - SHOWN_FAILURES
        told = failed[:SHOWN_FAILURES] + ([f"and {more} more"] if more > 0 else [])
        notes = [Notes(f"{len(failed)} games failed and count nowhere", told)]
    overall = [] if record["overall"] is None else [
        Section("Ratings over all environments", ratings(record["overall"], None))
    ]  # fmt: skip
    last = [] if record["held_out"] is None else [
        Section("Scores with held-out partners", [held_out(record["held_out"])])
    ]  # fmt: skip
    return Document(
        f"Cross-play of {len(names)} players",
        " · ".join(names),
        notes,
        [
            *overall,
            *(
                Section(
                    arena["name"],
                    [
                        _matrix(arena),
                        *standings(arena),
                        *(Details(which, [one]) for which, one in games.get(arena["name"], ())),
                    ],
                )
                for arena in arenas
            ),
            *last,
        ],
    )


def standings(arena: Mapping[str, Any]) -> list[Block]:
    """Ratings, rankings, gaps and shares of the way to the optimum, of one environment."""
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
    if arena["normalised"] is not None:
        shares = [(name, share(value)) for name, value in arena["normalised"].items()]
        blocks += [
            Text("Self-play between uniform play (0 %) and the optimum (100 %)", "heading"),
            table(["player", "normalised"], shares),
        ]
    return blocks


def held_out(scores: Sequence[Mapping[str, Any]]) -> Table:
    """Each player's score with each scenario's held-out partners."""
    rows = [
        (
            one["scenario"],
            ", ".join(one["partners"]),
            one["player"],
            number(one["focal_return"]),
            _interval(one["interval"]),
            one["failed"],
        )
        for one in scores
    ]
    headers = ["scenario", "partners", "player", "focal return", "95 % interval", "failed"]
    return table(headers, rows)


def _matrix(arena: Mapping[str, Any]) -> HeatMap:
    means = [
        [math.nan if cell["mean"] is None else cell["mean"] for cell in row]
        for row in arena["matrix"]
    ]
    hints = [
        [
            f"{cell['row']} with {cell['column']}: {_mean(cell['mean'])}, 95 % interval "
            f"{_interval(cell['interval'])}, {cell['games']} games, {cell['failed']} failed"
            for cell in row
        ]
        for row in arena["matrix"]
    ]
    intervals = [
        ["" if cell["interval"] is None else _interval(cell["interval"]) for cell in row]
        for row in arena["matrix"]
    ]
    caption = (
        "Raw return per agent and episode, of the row's player with the column's, and its 95 % "
        "interval"
    )
    return HeatMap(caption, arena["players"], means, intervals, hints)


def ratings(rated: Mapping[str, Any] | None, rankings: Mapping[str, Any] | None) -> list[Block]:
    """Return the table of ratings and rankings, and the ratings' history.

    `rated` is None without OpenSkill and has no matches where there were none.
    """
    missing = NO_MATCH
    if rated is None:
        rated = {"matches": 0, "ratings": [{"player": name} for name in rankings or ()]}
        missing = NO_OPENSKILL
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
    shown: list[Block] = [table(headers, rows)] if len(headers) > 1 else []
    if not matches:
        return [*([Text("Rankings", "heading")] if shown else ()), *shown, Text(f"{missing}.")]
    lines = [
        Line(name, [count for count, _ in points], [mu for _, mu in points])
        for name, points in rated["history"].items()
    ]
    return [
        Text(f"Ratings by {rated['by']}, over {matches} matches", "heading"),
        *shown,
        Figure(
            [Panel("rating after so many matches", lines, across="match")],
            "OpenSkill's rating, the matches in an order drawn from the seed.",
        ),
    ]


def _interval(ends: Sequence[float] | None) -> str:
    return MISSING if ends is None else f"{number(ends[0])} to {number(ends[1])}"


def _mean(value: float | None) -> str:
    return MISSING if value is None else number(value)
