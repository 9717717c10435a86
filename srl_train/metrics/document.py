"""The document of a report, comparison or replay: typed blocks, and their JSON for the page.

`page_assets/page.js` draws it. Beside running means the page computes nothing.
"""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from srl_envs.untrusted import cut, printable

SCHEMA_VERSION = 2
"""Raised when a block's fields change; the page refuses versions that it does not know."""
MISSING = "\N{EN DASH}"
"""Stands where a number was not measured."""
LONGEST_TEXT, LONGEST_CELL = 20_000, 1_000
"""Characters of a paragraph or listing, and of any other text; more stays in the run's files."""


@dataclass(frozen=True)
class Line:
    """One curve; y may hold NaN where nothing was measured."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    """With `high`: the band around y, which is then drawn as it stands, not smoothed."""
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class Panel:
    """One set of axes."""

    title: str
    lines: Sequence[Line]
    guides: Sequence[tuple[str, float]] = ()
    """Horizontal lines: name and height."""
    percent: bool = False
    """Heights are shares, shown in per cent."""
    window: int = 1
    """Values of a running mean, drawn with their standard deviation as a band; 1: as measured."""
    across: str = "round"
    """What x counts."""


@dataclass(frozen=True)
class Raster:
    """One row of blocks per model, filled in the rounds, or other steps, listed for it."""

    title: str
    rows: Sequence[tuple[str, Sequence[int]]]
    rounds: Sequence[int]
    across: str = "round"
    """What the blocks stand for."""


@dataclass(frozen=True)
class Arrow:
    """One player's part in what another got, over one period."""

    source: int
    """Number of the player in the graph's list."""
    target: int
    value: float
    low: float
    """With `high` the interval; NaN where there is none."""
    high: float
    games: int
    sure: bool
    """Whether the interval leaves zero out; other arrows are drawn pale."""


@dataclass(frozen=True)
class Period:
    """The arrows of a graph at one time."""

    label: str
    arrows: Sequence[Arrow]


@dataclass(frozen=True)
class InteractionGraph:
    """Players on a circle with arrows between them, a slider over the periods, and a table."""

    title: str
    how: str
    """What was measured."""
    unit: str
    """Of the arrows' values."""
    players: Sequence[str]
    periods: Sequence[Period]
    """In order of time; the last is shown first."""
    directed: bool = True


@dataclass(frozen=True)
class Figure:
    """Drawings side by side, with what their lines are."""

    drawings: Sequence[Panel | Raster | InteractionGraph]
    caption: str


@dataclass(frozen=True)
class Table:
    """Cells as text; the page sets columns of numbers flush right."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class HeatMap:
    """A square table of numbers, coloured from the lowest (white) to the highest."""

    title: str
    labels: Sequence[str]
    """Of rows and columns alike."""
    values: Sequence[Sequence[float]]
    """Row by row; NaN where there is none."""
    notes: Sequence[Sequence[str]]
    """Small, below each."""
    hints: Sequence[Sequence[str]]
    """What more there is to say of each, shown on hovering."""


Card = tuple[str, str, str]
"""A name, a number and what more there is to say of it."""


@dataclass(frozen=True)
class Cards:
    """The headline of a page."""

    cards: Sequence[Card]


@dataclass(frozen=True)
class Notes:
    """A box of what was warned of or is missing."""

    title: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Text:
    """A paragraph, a heading within a section, or a listing, whose lines and spaces are kept."""

    text: str
    style: Literal["quiet", "bad", "heading", "listing"] = "quiet"


@dataclass(frozen=True)
class Details:
    """Blocks that unfold on a click."""

    summary: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Step:
    """What one agent saw, heard, answered, did and earned in a turn."""

    agent: str
    player: str
    saw: str
    heard: Sequence[tuple[str, str]]
    answer: str | None
    """What it wrote; None where it does not write."""
    asked: bool
    failure: str | None
    """Why the answer could not be read, so that the default was played."""
    action: str
    reward: str


@dataclass(frozen=True)
class Turn:
    """One turn of an episode; `frame` is its picture, a PNG file."""

    number: int
    steps: Sequence[Step]
    frame: bytes | None


@dataclass(frozen=True)
class Transcript:
    """An episode: as a table, or as pictures to play where its turns have frames."""

    summary: str
    failure: str | None
    rules: Sequence[tuple[str, str]]
    """Agents, and what they were told."""
    turns: Sequence[Turn]
    left_out: int = 0
    """Turns at the end that are not shown."""
    seconds: float | None = None
    """Between two frames."""


@dataclass(frozen=True)
class Progress:
    """How far a run has come: a bar, and words beside it."""

    share: float
    """From 0 to 1; NaN where nobody knows."""
    words: Sequence[str]


@dataclass(frozen=True)
class RunLine:
    """A run in a list of several; the page links to it by its name."""

    name: str
    about: str
    progress: Progress


@dataclass(frozen=True)
class Runs:
    """Runs to choose from."""

    runs: Sequence[RunLine]


@dataclass(frozen=True)
class Games:
    """Files of sample episodes of a run that is served, whose transcripts the page asks for."""

    run: str
    files: Sequence[tuple[str, str]]
    """Name and label, the newest last."""


Block = (
    Progress | Runs | Games | Figure | Table | HeatMap | Cards | Notes | Text | Details | Transcript
)


@dataclass(frozen=True)
class Section:
    """A headed part of the page."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """Everything that one page shows: blocks, and below them sections."""

    title: str
    subtitle: str
    blocks: Sequence[Block]
    sections: Sequence[Section] = ()
    schema_version: int = SCHEMA_VERSION


def to_json(document: Document) -> str:
    """The document as ASCII JSON that may stand inside a `<script>` element.

    Every text is made printable and cut; what is not a finite number is null.
    """
    text = json.dumps(plain(document), allow_nan=False, separators=(",", ":"))
    # In JSON these stand in strings only; escaped, no string ends the element that it is in.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def plain(value: Any, longest: int = LONGEST_CELL) -> Any:
    """A document, or a part of one, as JSON has it: its dataclasses are mappings with a `kind`."""
    if dataclasses.is_dataclass(value):
        longest = LONGEST_TEXT if isinstance(value, Text | Transcript) else longest
        fields = {f.name: plain(getattr(value, f.name), longest) for f in dataclasses.fields(value)}
        return {"kind": type(value).__name__.lower(), **fields}
    if isinstance(value, str):
        return printable(cut(value, longest))
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Sequence):
        return [plain(entry, longest) for entry in value]
    return value


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """A table without the columns in which nothing was measured."""
    cells = [[str(value) for value in row] for row in rows]
    kept = [
        place
        for place in range(len(headers))
        if not cells or any(row[place] not in (MISSING, "") for row in cells)
    ]
    return Table([headers[p] for p in kept], [[row[p] for p in kept] for row in cells])


def number(value: float, digits: int = 4) -> str:
    """The value with `digits` significant digits; MISSING for NaN."""
    return f"{value:.{digits}g}" if math.isfinite(value) else MISSING


def share(value: float) -> str:
    """The value in per cent; MISSING for NaN."""
    return f"{100 * value:.1f} %" if math.isfinite(value) else MISSING


def smoothing_window(values: int) -> int:
    """Over how many of its values a line's running mean goes."""
    return max(1, min(3, values // 2), values // 10)


def running_means(values: Sequence[float], window: int) -> list[float]:
    """The mean of each value and those before it, `window` in all; NaN is left out."""
    means = []
    for end in range(1, len(values) + 1):
        known = [value for value in values[max(0, end - window) : end] if math.isfinite(value)]
        means.append(sum(known) / len(known) if known else math.nan)
    return means


def as_lines(blocks: Iterable[Block]) -> list[str]:
    """Return the texts and tables among the blocks as lines for a terminal."""
    found: list[str] = []
    for block in blocks:
        if isinstance(block, Text):
            found.append(block.text)
        elif isinstance(block, Table):
            found += aligned([block.headers, *block.rows])
    return found


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return lines of equally wide columns; the first row is the header.

    The first column and columns of words are flush left, columns of numbers flush right.
    """
    columns = list(zip(*rows, strict=True))
    widths = [max(map(len, column)) for column in columns]
    left = [not place or any(cell[:1].isalpha() for cell in column[1:])
            for place, column in enumerate(columns)]  # fmt: skip
    return [
        "  ".join(
            cell.ljust(width) if to_left else cell.rjust(width)
            for cell, width, to_left in zip(row, widths, left, strict=True)
        ).rstrip()
        for row in rows
    ]
