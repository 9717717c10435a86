"""Repeated measurements: taken in turns in one run, and how their middle and spread read."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

Side = TypeVar("Side", bound=Hashable)


class Estimate(NamedTuple):
    """A mean and its standard error (None for a single value); formats as 'mean ± error'."""

    mean: float
    error: float | None

    def __format__(self, form: str) -> str:
        return f"{self.mean:{form}}" + ("" if self.error is None else f" ± {self.error:{form}}")


class Repeats(tuple[float, ...]):
    """One number measured several times; formats as 'median (least to greatest)'."""

    @property
    def middle(self) -> float:
        """The median."""
        return statistics.median(self)

    def __format__(self, form: str) -> str:
        if len(set(self)) == 1:
            return f"{self[0]:{form}}"
        return f"{self.middle:{form}} ({min(self):{form}} to {max(self):{form}})"


class OverSeeds(Repeats):
    """One number of several seeds; formats as 'mean (least to greatest)'."""

    @property
    def middle(self) -> float:
        """The mean."""
        return math.fsum(self) / len(self)


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of independent values."""
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return Estimate(mean, None)
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return Estimate(mean, math.sqrt(variance / len(values)))


def in_turns(
    sides: Mapping[Side, Callable[[int], float]], repeats: int, warm_ups: int = 0
) -> dict[Side, Repeats]:
    """What each side measured, all sides within every repeat, so that a busy minute hits everybody.

    A side is told the number of the repeat. The order of the sides turns round from one repeat to
    the next; the first `warm_ups` repeats are thrown away.
    """
    found: dict[Side, list[float]] = {side: [] for side in sides}
    for repeat in range(warm_ups + repeats):
        for side in list(sides) if repeat % 2 == 0 else reversed(list(sides)):
            found[side].append(sides[side](repeat))
    return {side: Repeats(values[warm_ups:]) for side, values in found.items()}


def ratios(ones: Sequence[float], others: Sequence[float]) -> Repeats:
    """How many times the other each one is, repeat by repeat."""
    return Repeats(one / other for one, other in zip(ones, others, strict=True))
