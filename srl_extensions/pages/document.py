"""Document of a page: typed blocks, their JSON, and the HTML file that draws them.

`assets/page.js` draws the document; the only numbers that the script computes are running means.
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
from srl_train.errors import RunFolderError
from srl_train.metrics.tables import aligned, measured
from srl_train.run_files import write_whole

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
<body><main><noscript>Enable JavaScript to see this page.</noscript></main>
<script type="application/json" id="document">{document}</script>
<!-- The charts are drawn by uPlot.
{licence}-->
{scripts}
</body>
</html>
"""


@dataclass(frozen=True)
class Line:
    """Curve of a panel. `y` may contain NaN."""

    label: str
    x: Sequence[float]
    y: Sequence[float]


@dataclass(frozen=True)
class Panel:
    """Chart with one or several lines; with `percent`, y is a fraction shown in percent."""

    title: str
    lines: Sequence[Line]
    guides: Sequence[tuple[str, float]] = ()
    """Label and height of horizontal reference lines."""
    percent: bool = False
    across: str = "round"
    """Label of the x axis."""


@dataclass(frozen=True)
class Figure:
    """Charts side by side, with a caption below."""

    drawings: Sequence[Panel]
    caption: str = ""


@dataclass(frozen=True)
class Table:
    """Table of texts. Columns of numbers are aligned to the right."""

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    title: str = ""

    def lines(self) -> list[str]:
        """Return the title, if any, and the table as lines of text for a terminal."""
        title = [f"{self.title}:"] if self.title else []
        return [*title, *aligned([self.headers, *self.rows])]


Card = tuple[str, str, str]


@dataclass(frozen=True)
class Cards:
    """Headline numbers: a label, a value and an explanation for each card."""

    cards: Sequence[Card]


@dataclass(frozen=True)
class Notes:
    """Box with a title and a list of warnings."""

    title: str
    lines: Sequence[str]


@dataclass(frozen=True)
class Text:
    """Paragraph ("quiet"), error message ("bad"), heading within a section, or listing."""

    text: str
    style: Literal["quiet", "bad", "heading", "listing"] = "quiet"


@dataclass(frozen=True)
class Transcript:
    """Episode as a table (`seconds` is None), or as an animation of its frames."""

    summary: str
    failure: str | None
    rules: Sequence[tuple[str, str]]
    """Names of agents, and the rules of the environment as these agents read them."""
    turns: Sequence[Mapping[str, Any]]
    """Turns: `number`, `frame` (bytes of a PNG file, or None) and `steps` (see transcript.py)."""
    left_out: int = 0
    """Number of turns that are not shown."""
    seconds: float | None = None
    """Time for which the animation shows a frame, or None for a table."""


@dataclass(frozen=True)
class RoundProgress:
    """Progress bar of a run: the completed share in [0, 1] or NaN if unknown, with a legend."""

    share: float
    words: Sequence[str]


@dataclass(frozen=True)
class Runs:
    """List of links to runs: `name`, description `about`, and `progress` (RoundProgress)."""

    runs: Sequence[Mapping[str, Any]]


Block = RoundProgress | Runs | Figure | Table | Cards | Notes | Text | Transcript


@dataclass(frozen=True)
class PageSection:
    """Section of a page."""

    title: str
    blocks: Sequence[Block]


@dataclass(frozen=True)
class Document:
    """Content of one page: blocks, then sections."""

    title: str
    subtitle: str
    blocks: Sequence[Block]
    sections: Sequence[PageSection] = ()


def plain(value: Any, longest: int = LONGEST_CELL) -> Any:
    """Return a document or a part of it as JSON data.

    Dataclasses become mappings with the class name in lower case as `kind`. Texts are made
    printable and cut to `longest` characters (20000 in Text and Transcript), bytes become Base64.
    Floats are rounded to six significant digits; NaN and infinities become None.
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


def to_json(document: Document) -> str:
    """Return `plain(document)`, which cuts texts, as ASCII JSON that is safe inside `<script>`."""
    text = json.dumps(plain(document), allow_nan=False, separators=(",", ":"))
    # JSON has these characters only in strings. Escaped, they cannot end the element.
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def html(document: Document) -> str:
    """Return the HTML file of a document, which makes no external requests.

    The page allows embedded pictures, and only the scripts and styles of `assets`.
    """
    styles, scripts = ([asset(name) for name in names] for names in (STYLES, SCRIPTS))
    policy = (
        f"default-src 'none'; img-src data:; style-src {hashes(styles)}; "
        f"script-src {hashes(scripts)}; base-uri 'none'; form-action 'none'; "
        "require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return _PAGE.format(
        policy=policy,
        title=escape(printable(f"Core SRL: {document.title}"[:200], multiline=False)),
        styles="\n".join(f"<style>{one}</style>" for one in styles),
        document=to_json(document),
        licence=asset("uPlot.LICENSE.txt"),
        scripts="\n".join(f"<script>{one}</script>" for one in scripts),
    )


def write_page(document: Document, path: Path) -> Path:
    """Write a document as HTML atomically, and return `path`; RunFolderError if this fails."""
    try:
        write_whole(path, html(document))
    except OSError as error:
        raise RunFolderError(f"cannot write {path}: {error.strerror}") from error
    return path


def hashes(texts: Iterable[str]) -> str:
    """Return the SHA-256 hashes of scripts or styles as sources of a Content-Security-Policy."""
    digests = (base64.b64encode(hashlib.sha256(one.encode()).digest()).decode() for one in texts)
    return " ".join(f"'sha256-{digest}'" for digest in digests)


def asset(name: str) -> str:
    """Return the text of the file `name` in `assets`."""
    return files("srl_extensions.pages").joinpath("assets", name).read_text("utf-8")


def table(headers: Sequence[str], rows: Iterable[Sequence[object]], title: str = "") -> Table:
    """Return a Table of texts; if there are rows, omit columns that have only MISSING or ""."""
    shown, *cells = measured(headers, rows)
    return Table(shown, cells, title)
