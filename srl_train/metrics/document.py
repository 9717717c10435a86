"""Document of a report, comparison or replay: typed blocks and their JSON for the page.

`page_assets/page.js` draws the document and computes nothing but running means.
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
"""Version of the blocks' fields; the page refuses unknown versions."""
MISSING = "\N{EN DASH}"
"""Text for a number that was not measured."""
LONGEST_TEXT, LONGEST_CELL = 20_000, 1_000
"""Limits in characters of a paragraph or listing, and of any other text."""


@dataclass(frozen=True)
class Line:
    """One curve; y may contain NaN. A band from `low` to `high` disables smoothing."""

    label: str
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] | None = None
    high: Sequence[float] | None = None


@dataclass(frozen=True)
class Panel:
    """One set of axes."""

    title: str
    lines: Sequence[Line]
    guides: Sequence[tuple[str, float]] = ()
    percent: bool = False
    window: int = 1
    """Values of a running mean, drawn with a band of the standard deviation."""
    across: str = "round"


@dataclass(frozen=True)
class Raster:
    """One row of blocks per model, filled in the listed rounds or other steps."""

    title: str
    rows: Sequence[tuple[str, Sequence[int]]]
    rounds: Sequence[int]
    across: str = "round"


@dataclass(frozen=True)
class Figure:
    """Drawings side by side with a caption."""

    drawings: Sequence[Panel | Raster]
    caption: str


@dataclass(frozen=True)
class Table:
    """Cells as text; columns of numbers are aligned to the right."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]


@dataclass(frozen=True)
class HeatMap:
    """Square table of numbers, colored from the lowest (white) to the highest."""

    title: str
    labels: Sequence[str]
    values: Sequence[Sequence[float]]
    """Values row by row; NaN if there is none."""
    notes: Sequence[Sequence[str]]
    hints: Sequence[Sequence[str]]


Card = tuple[str, str, str]


@dataclass(frozen=True)
class Cards:
    """Headline of a page."""

    cards: Sequence[Card]


@dataclass(frozen=True)
class Notes:
    """Box of warnings or missing parts."""

    title: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Text:
    """Paragraph, heading within a section, or listing with its line breaks and spaces."""

    text: str
    style: Literal["quiet", "bad", "heading", "listing"] = "quiet"


@dataclass(frozen=True)
class Details:
    """Blocks that unfold on a click."""

    summary: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Step:
    """Observation, messages, answer, action and reward of one agent in a turn."""

    agent: str
    player: str
    saw: str
    heard: Sequence[tuple[str, str]]
    answer: str | None
    asked: bool
    failure: str | None
    action: str
    reward: str


@dataclass(frozen=True)
class ShownTurn:
    """One turn of an episode; `frame` is a PNG file."""

    number: int
    steps: Sequence[Step]
    frame: bytes | None


@dataclass(frozen=True)
class Transcript:
    """Episode as a table, or as an animation if its turns have frames."""

    summary: str
    failure: str | None
    rules: Sequence[tuple[str, str]]
    turns: Sequence[ShownTurn]
    left_out: int = 0
    seconds: float | None = None


@dataclass(frozen=True)
class RoundProgress:
    """Progress of a run: a share from 0 to 1, or NaN if unknown, and words."""

    share: float
    words: Sequence[str]


@dataclass(frozen=True)
class RunLine:
    """Run in a list of several, linked by its name."""

    name: str
    about: str
    progress: RoundProgress


@dataclass(frozen=True)
class Runs:
    """Runs to choose from."""

    runs: Sequence[RunLine]


@dataclass(frozen=True)
class Games:
    """Sample episodes of a run, by name and label, whose transcripts the page requests."""

    run: str
    files: Sequence[tuple[str, str]]


Block = (
    RoundProgress
    | Runs
    | Games
    | Figure
    | Table
    | HeatMap
    | Cards
    | Notes
    | Text
    | Details
    | Transcript
)


@dataclass(frozen=True)
class PageSection:
    """Part of the page with a heading."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """Content of one page: blocks, followed by sections."""

    title: str
    subtitle: str
    blocks: Sequence[Block]
    sections: Sequence[PageSection] = ()
    schema_version: int = SCHEMA_VERSION


def to_json(document: Document) -> str:
    """Return the document as ASCII JSON that is safe inside a `<script>` element.

    All texts are made printable and cut; numbers that are not finite become null.
    """
    text = json.dumps(plain(document), allow_nan=False, separators=(",", ":"))
    # These characters occur only in strings; escaped, no string ends the element.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def plain(value: Any, longest: int = LONGEST_CELL) -> Any:
    """Return a document or a part of one as JSON data; dataclasses are mappings with a `kind`."""
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
    """Return a table without the columns in which nothing was measured."""
    cells = [[str(value) for value in row] for row in rows]
    kept = [
        place
        for place in range(len(headers))
        if not cells or any(row[place] not in (MISSING, "") for row in cells)
    ]
    return Table([headers[p] for p in kept], [[row[p] for p in kept] for row in cells])


def number(value: float, digits: int = 4) -> str:
    """Return the value with `digits` significant digits, or MISSING for NaN."""
    return f"{value:.{digits}g}" if math.isfinite(value) else MISSING


def share(value: float) -> str:
    """Return the value in percent, or MISSING for NaN."""
    return f"{100 * value:.1f} %" if math.isfinite(value) else MISSING


def smoothing_window(values: int) -> int:
    """Return the number of values in a line's running mean."""
    return max(1, min(3, values // 2), values // 10)


def running_means(values: Sequence[float], window: int) -> list[float]:
    """Return the means over the last `window` values, without NaN."""
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
    left = [
        not place or any(cell[:1].isalpha() for cell in column[1:])
        for place, column in enumerate(columns)
    ]
    return [
        "  ".join(
            cell.ljust(width) if to_left else cell.rjust(width)
            for cell, width, to_left in zip(row, widths, left, strict=True)
        ).rstrip()
        for row in rows
    ]
