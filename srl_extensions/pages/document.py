"""Document of a page: typed blocks, their JSON, and the HTML file with the scripts that draw it.

`assets/page.js` draws the document and computes nothing but running means.
"""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any, Literal

from srl_envs.untrusted import cut, printable
from srl_train.metrics.errors import RunFolderError
from srl_train.metrics.tables import measured
from srl_train.run_files import write_whole

SCHEMA_VERSION = 2
"""Version of the blocks' fields; the page refuses unknown versions."""
LONGEST_TEXT, LONGEST_CELL = 20_000, 1_000
"""Limits in characters of a paragraph or listing, and of any other text."""
SCRIPTS = ("uPlot.iife.min.js", "page.js")
"""Scripts in order; the last one draws the document."""
STYLES = ("uPlot.min.css", "page.css")
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<title>{title}</title>
{styles}
</head>
<body><main><noscript>This page is drawn by a script inside it, which the browser does not run.\
</noscript></main>
<script type="application/json" id="document">{document}</script>
<!-- The drawing of charts is uPlot's.
{licence}-->
{scripts}
</body>
</html>
"""


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
    """One set of axes; lines are running means over `window` values, with a band."""

    title: str
    lines: Sequence[Line]
    guides: Sequence[tuple[str, float]] = ()
    percent: bool = False
    window: int = 1
    across: str = "round"


@dataclass(frozen=True)
class Raster:
    """One row of blocks per model, filled in the listed rounds."""

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
class Heatmap:
    """Square table of numbers on a color scale, with a note below and a tooltip on each cell."""

    title: str
    labels: Sequence[str]
    """Labels of the rows; the columns have the same order."""
    values: Sequence[Sequence[float | None]]
    notes: Sequence[Sequence[str]]
    hints: Sequence[Sequence[str]]


Card = tuple[str, str, str]


@dataclass(frozen=True)
class Cards:
    """Headline numbers: a label, a value and an explanation for each card."""

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
class Transcript:
    """Episode as a table, or as an animation if `seconds` is the time of a frame.

    A turn has a `number`, a `frame` (a PNG file, or None) and `steps`, see `transcript.py`.
    """

    summary: str
    failure: str | None
    rules: Sequence[tuple[str, str]]
    turns: Sequence[Mapping[str, Any]]
    left_out: int = 0
    seconds: float | None = None


@dataclass(frozen=True)
class RoundProgress:
    """Progress of a run: a share from 0 to 1, or NaN if unknown, and words."""

    share: float
    words: Sequence[str]


@dataclass(frozen=True)
class Runs:
    """Runs to choose from, each with a `name`, words `about` it and its `progress`."""

    runs: Sequence[Mapping[str, Any]]


Block = RoundProgress | Runs | Figure | Table | Heatmap | Cards | Notes | Text | Transcript


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


def plain(value: Any, longest: int = LONGEST_CELL) -> Any:
    """Return a document or a part of one as JSON data; dataclasses are mappings with a `kind`.

    All texts are made printable and cut; numbers that are not finite become null.
    """
    if dataclasses.is_dataclass(value):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        value = {"kind": type(value).__name__.lower(), **fields}
    if isinstance(value, Mapping):
        longest = LONGEST_TEXT if value.get("kind") in ("text", "transcript") else longest
        return {key: plain(entry, longest) for key, entry in value.items()}
    if isinstance(value, str):
        return printable(cut(value, longest))
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, float):
        return float(f"{value:.6g}") if math.isfinite(value) else None
    if isinstance(value, Sequence):
        return [plain(entry, longest) for entry in value]
    return value


def to_json(document: Document | Mapping[str, Any]) -> str:
    """Return the document as ASCII JSON that is safe inside a `<script>` element."""
    versioned = {"schema_version": SCHEMA_VERSION, **plain(document)}
    text = json.dumps(versioned, allow_nan=False, separators=(",", ":"))
    # These characters occur only in strings; escaped, no string ends the element.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def html(document: Document | Mapping[str, Any]) -> str:
    """Return the self-contained page of a document as text.

    The page's policy allows only the scripts and styles with these hashes and embedded pictures.
    Trusted Types prevent the scripts from creating HTML from text.
    """
    styles, scripts = ([asset(name) for name in names] for names in (STYLES, SCRIPTS))
    policy = (
        f"default-src 'none'; img-src data:; style-src {hashes(styles)}; "
        f"script-src {hashes(scripts)}; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    title = document["title"] if isinstance(document, Mapping) else document.title
    return _PAGE.format(
        policy=policy,
        title=escape(printable(f"Core SRL: {title}"[:200], multiline=False)),
        styles="\n".join(f"<style>{one}</style>" for one in styles),
        document=to_json(document),
        licence=asset("uPlot.LICENSE.txt"),
        scripts="\n".join(f"<script>{one}</script>" for one in scripts),
    )


def write_page(document: Document | Mapping[str, Any], path: Path) -> Path:
    """Write the page, whole or not at all. Raises RunFolderError if the file cannot be written."""
    try:
        write_whole(path, html(document))
    except OSError as error:
        raise RunFolderError(f"cannot write {path}: {error.strerror}") from error
    return path


def hashes(texts: Iterable[str]) -> str:
    """Return the hashes of inline scripts and styles for a Content-Security-Policy."""
    digests = (base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


def asset(name: str) -> str:
    """Return the text of a file in `assets`."""
    return files("srl_extensions.pages").joinpath("assets", name).read_text("utf-8")


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> Table:
    """Return a table without the columns in which nothing was measured."""
    shown, *cells = measured(headers, rows)
    return Table(shown, cells)
