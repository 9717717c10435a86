"""Columns of a run's numbers, thinned as it grows: the memory they take is bounded."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping
from typing import Any

from srl_train.metrics.run_folder import LARGEST

MOST_POINTS = 480
"""Of a column, as many as a screen has room for; then neighbours become one."""
MOST_COLUMNS = 3000
"""What else a row measures is left out."""
Path = tuple[str, ...]


class Columns:
    """One column for every number of the rows, by its path of keys.

    A point is the mean over `stride` rounds, of those that measured it; NaN where none did. The
    last point may stand for fewer.
    """

    def __init__(self, most_points: int = MOST_POINTS) -> None:
        self.stride = 1
        self.rounds: list[int] = []
        """The last round of every point."""
        self._most = most_points
        self._columns: dict[Path, array[float]] = {}
        self._sums: dict[Path, tuple[float, int]] = {}
        self._rows_in_last = 0

    def add(self, number: int, row: Mapping[str, Any]) -> None:
        """Take the row of round `number`, which is beyond all before it."""
        if self._rows_in_last in (0, self.stride):
            if len(self.rounds) == self._most:
                self._thin()
            self._begin_point(number)
        self._rows_in_last += 1
        self.rounds[-1] = number
        for path, value in _numbers(row, ()):
            column = self._columns.get(path)
            if column is None:
                if len(self._columns) == MOST_COLUMNS:
                    continue
                column = array("d", [math.nan]) * len(self.rounds)
                self._columns[path] = column
            total, count = self._sums.get(path, (0.0, 0))
            self._sums[path] = total + value, count + 1
            column[-1] = (total + value) / (count + 1)

    def series(self, *keys: str) -> list[float]:
        """The column at the path, a value per point; NaN where there is none."""
        found = self._columns.get(keys)
        return [math.nan] * len(self.rounds) if found is None else list(found)

    def names(self, *keys: str) -> list[str]:
        """The names that follow these keys in any path, each once, in order."""
        depth = len(keys)
        below = (path for path in self._columns if len(path) > depth and path[:depth] == keys)
        return list(dict.fromkeys(path[depth] for path in below))

    def _begin_point(self, number: int) -> None:
        self._rows_in_last, self._sums = 0, {}
        self.rounds.append(number)
        for column in self._columns.values():
            column.append(math.nan)

    def _thin(self) -> None:
        """Make one point of every two."""
        self.stride *= 2
        self.rounds = self.rounds[1::2]
        for path, column in self._columns.items():
            pairs = zip(column[::2], column[1::2], strict=True)
            self._columns[path] = array("d", [_middle(first, second) for first, second in pairs])


def _middle(first: float, second: float) -> float:
    if math.isnan(first):
        return second
    return first if math.isnan(second) else (first + second) / 2


def _numbers(row: Mapping[str, Any], above: Path) -> Iterator[tuple[Path, float]]:
    for key, value in row.items():
        if isinstance(value, (int, float)):
            if -LARGEST < value < LARGEST:  # no NaN, no infinity
                yield (*above, key), float(value)
        elif isinstance(value, dict):
            yield from _numbers(value, (*above, key))
