"""Blocks of a document as lines of text, for a terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from srl_train.metrics.report.document import Block, Table, Text


def as_lines(blocks: Iterable[Block]) -> list[str]:
    """The texts and tables; drawings are left to the page."""
    found: list[str] = []
    for block in blocks:
        if isinstance(block, Text):
            found.append(block.text)
        elif isinstance(block, Table):
            found += aligned([block.headers, *block.rows])
    return found


def aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of equal columns, below a line of headers: the first and those that begin with letters
    to the left, others to the right."""
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
