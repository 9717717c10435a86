"""Formatting of numbers, and tables for a terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

MISSING = "\N{EN DASH}"
"""Text for a number that was not measured."""


def number(value: float | None, digits: int = 4) -> str:
    """Return text with up to `digits` significant digits, or MISSING for None, NaN and infinity."""
    return MISSING if value is None or not math.isfinite(value) else f"{value:.{digits}g}"


def share(value: float | None) -> str:
    """Return a fraction as text, such as "12.5 %", or MISSING for None, NaN and infinity."""
    return MISSING if value is None or not math.isfinite(value) else f"{100 * value:.1f} %"


def measured(headers: Sequence[str], rows: Iterable[Sequence[object]]) -> list[list[str]]:
    """Return headers and rows as text; with rows, omit columns that have only MISSING or ""."""
    cells = [[str(value) for value in row] for row in rows]
    kept = [
        place
        for place in range(len(headers))
        if not cells or any(row[place] not in (MISSING, "") for row in cells)
    ]
    return [[row[place] for place in kept] for row in ([*headers], *cells)]


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Return one line per row, with cells padded to the width of their column.

    The first row is the header. Columns are aligned right, except the first one and those in which
    a cell below the header begins with a letter.
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
