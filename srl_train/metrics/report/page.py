"""The pieces of a self-contained HTML page: escaping, tables, cards, the style sheet.

Nothing on a page comes from elsewhere, and the page forbids its reader's browser to fetch
anything. All text from models, configurations and files passes through `escaped`.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable, Sequence
from pathlib import Path

from srl_envs.loading.untrusted import printable
from srl_train.engine.run_files import write_whole
from srl_train.metrics.errors import RunFolderError

MISSING = "\N{EN DASH}"
"""Stands where a number was not measured."""
_STYLE = """
:root { --ink: #22272e; --quiet: #6b7280; --line: #e5e7eb; --wash: #f7f8fa; --blue: #0072b2;
  --bad: #b42318; --bad-wash: #fdf0ee; }
* { box-sizing: border-box; }
body { margin: 0; color: var(--ink); background: #fff;
  font: 15px/1.5 system-ui, -apple-system, "Segoe UI", Roboto, "DejaVu Sans", sans-serif; }
main { max-width: 1080px; margin: 0 auto; padding: 2.2rem 1.4rem 4rem; }
h1 { font-size: 1.7rem; line-height: 1.2; margin: 0 0 .2rem; letter-spacing: -.01em; }
h2 { font-size: 1.15rem; margin: 2.6rem 0 .5rem; padding-top: 1rem;
  border-top: 1px solid var(--line); }
h3 { font-size: 1rem; margin: 1.4rem 0 .4rem; }
p { margin: .3rem 0 .7rem; max-width: 75ch; }
.quiet, figcaption { color: var(--quiet); font-size: .86rem; }
nav { margin: .8rem 0 0; font-size: .86rem; display: flex; flex-wrap: wrap; gap: .2rem 1rem; }
nav a { color: var(--blue); text-decoration: none; }
.cards { display: grid; grid-template-columns: repeat(auto-fill, minmax(270px, 1fr)); gap: .7rem;
  margin: 1.2rem 0; }
.card { background: var(--wash); border: 1px solid var(--line); border-radius: 8px;
  padding: .7rem .9rem; }
.card .name { color: var(--quiet); font-size: .8rem; }
.card .value { font-size: 1.3rem; font-weight: 600; font-variant-numeric: tabular-nums; }
.card .more { color: var(--quiet); font-size: .78rem; }
.notes { background: #fff8e6; border: 1px solid #f2d68a; border-radius: 8px; padding: .6rem .9rem;
  margin: 1rem 0; }
.notes ul { margin: .2rem 0; padding-left: 1.2rem; }
figure { margin: .6rem 0 1rem; }
.panels { display: grid; gap: .8rem 1rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 380px), 1fr)); }
svg { width: 100%; max-width: 520px; height: auto; display: block; }
svg * { stroke-linejoin: round; stroke-linecap: butt; }
.wide { overflow-x: auto; background:
  linear-gradient(to right, #fff 2rem, transparent) left / 3rem 100% no-repeat local,
  linear-gradient(to left, #fff 2rem, transparent) right / 3rem 100% no-repeat local,
  linear-gradient(to right, #0002, transparent) left / .8rem 100% no-repeat scroll,
  linear-gradient(to left, #0002, transparent) right / .8rem 100% no-repeat scroll; }
table { border-collapse: collapse; font-size: .88rem; font-variant-numeric: tabular-nums; }
th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid var(--line);
  vertical-align: top; }
th { color: var(--quiet); font-weight: 500; }
td.number, th.number { text-align: right; white-space: nowrap; }
.transcript { width: 100%; min-width: 700px; table-layout: fixed; margin: .4rem 0; }
.transcript .seat { width: 9.5rem; } .transcript .answer { width: 34%; }
.transcript .act { width: 7rem; } .transcript .reward { width: 5rem; }
.transcript td { overflow-wrap: anywhere; }
.transcript tr.turn td { background: var(--wash); color: var(--quiet); font-size: .8rem;
  padding: .2rem .5rem; }
.transcript tr.failure td { background: var(--bad-wash); }
.reason { color: var(--bad); font-size: .8rem; }
.said { white-space: pre-wrap; display: block; max-height: 12rem; overflow-y: auto; }
.heard { color: var(--quiet); border-left: 3px solid var(--line); padding-left: .5rem;
  margin-top: .3rem; }
pre { background: var(--wash); border: 1px solid var(--line); border-radius: 8px;
  padding: .8rem 1rem;
  overflow-x: auto; font-size: .82rem; line-height: 1.45; }
details > summary { cursor: pointer; color: var(--blue); margin: .4rem 0; }
@media (max-width: 640px) {
  main { padding: 1.2rem .9rem 3rem; } h1 { font-size: 1.35rem; }
  .cards { gap: .5rem; } .card { padding: .45rem .7rem; }
  .transcript { min-width: 0; } .transcript thead { display: none; }
  .transcript tr, .transcript td { display: block; width: auto; }
  .transcript td { border: 0; padding: .1rem .5rem; }
  .transcript tr { border-bottom: 1px solid var(--line); padding: .2rem 0; }
  .transcript td.number::before { content: "reward "; } .transcript td.number { text-align: left; }
}
@media print { details > summary { display: none; } h2 { break-after: avoid; } }
"""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>{title}</title>
<style>{style}</style>
</head>
<body><main>
{body}
</main></body>
</html>
"""


def escaped(text: object) -> str:
    """The text as HTML that shows it and does nothing else, whatever is in it."""
    return html.escape(printable(text))


def page(title: str, body: Sequence[str]) -> str:
    """A whole document; `title` is plain text, `body` is HTML."""
    return _PAGE.format(title=escaped(title), style=_STYLE, body="\n".join(body))


def section(anchor: str, title: str, *parts: str | None) -> str:
    """A headed part of the page; parts that are None or empty are left out."""
    body = "\n".join(part for part in parts if part)
    return f'<section id="{anchor}"><h2>{escaped(title)}</h2>\n{body}</section>'


def card(name: str, value: str, more: str = "") -> str:
    """One number with its name."""
    below = f'<div class="more">{escaped(more)}</div>' if more else ""
    return (
        f'<div class="card"><div class="name">{escaped(name)}</div>'
        f'<div class="value">{escaped(value)}</div>{below}</div>'
    )


def table(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """A table of plain values; what reads as a number is set flush right, and a column in which
    nothing was measured is left out."""
    cells = [[str(value) for value in row] for row in rows]
    kept = [
        place
        for place in range(len(headers))
        if not cells or any(row[place] not in (MISSING, "") for row in cells)
    ]
    headers = [headers[place] for place in kept]
    cells = [[row[place] for place in kept] for row in cells]
    numeric = [
        bool(cells) and all(_reads_as_number(row[place]) for row in cells)
        for place in range(len(headers))
    ]
    head = "".join(_cell("th", name, right) for name, right in zip(headers, numeric, strict=True))
    body = "\n".join(
        "<tr>" + "".join(_cell("td", v, r) for v, r in zip(row, numeric, strict=True)) + "</tr>"
        for row in cells
    )
    return (
        f'<div class="wide"><table><thead><tr>{head}</tr></thead>\n'
        f"<tbody>{body}</tbody></table></div>"
    )


def figure(svg: str | None, caption: str = "") -> str | None:
    """A drawing with its caption; None for no drawing."""
    if svg is None:
        return None
    return f"<figure>{svg}<figcaption>{escaped(caption)}</figcaption></figure>"


def number(value: float, digits: int = 4) -> str:
    """The value with `digits` significant digits; MISSING for NaN."""
    return f"{value:.{digits}g}" if math.isfinite(value) else MISSING


def share(value: float) -> str:
    """The value in per cent; MISSING for NaN."""
    return f"{100 * value:.1f} %" if math.isfinite(value) else MISSING


def write(text: str, path: Path) -> Path:
    """Write the page, whole or not at all. Raises RunFolderError where the system refuses."""
    try:
        write_whole(path, text)
    except OSError as error:
        raise RunFolderError(f"cannot write {path}: {error.strerror}") from error
    return path


def _cell(tag: str, value: str, right: bool) -> str:
    kind = ' class="number"' if right else ""
    return f"<{tag}{kind}>{escaped(value)}</{tag}>"


def _reads_as_number(text: str) -> bool:
    try:
        float(text.removesuffix(" %"))
    except ValueError:
        return text in (MISSING, "")
    return True
