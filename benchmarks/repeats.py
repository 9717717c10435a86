"""Repeated measurements: taken in turns in one run, and how their middle and spread read."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from srl_agents.evaluation.bootstrap import mean_interval

Side = TypeVar("Side", bound=Hashable)


class Estimate(NamedTuple):
    """A mean and its standard error (None for a single value); formats as 'mean ± error'."""

    mean: float
    error: float | None

    def __format__(self, form: str) -> str:
        return f"{self.mean:{form}}" + ("" if self.error is None else f" ± {self.error:{form}}")


class Interval(NamedTuple):
    """A mean and its interval; formats as 'mean (low to high)', the ends left out where equal."""

    mean: float
    low: float
    high: float

    def __format__(self, form: str) -> str:
        ends = f" ({self.low:{form}} to {self.high:{form}})" if self.high > self.low else ""
        return f"{self.mean:{form}}{ends}"


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
        return statistics.fmean(self)

    @property
    def interval(self) -> Interval:
        """The mean and its 95 % interval by Student's t."""
        return Interval(*mean_interval(self))

    @property
    def equal_within(self) -> float:
        """Smallest margin within which two one-sided t tests at 5 % show that the mean is zero.

        The margin is the farther end of the 90 % interval (Schuirmann 1987), NaN for one seed.
        """
        _, low, high = mean_interval(self, 0.9)
        return max(abs(low), abs(high))


def estimate(values: Sequence[float]) -> Estimate:
    """The mean of independent values."""
    several = len(values) > 1
    error = statistics.stdev(values) / math.sqrt(len(values)) if several else None
    return Estimate(statistics.fmean(values), error)


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
