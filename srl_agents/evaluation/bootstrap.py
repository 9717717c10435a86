"""Confidence intervals of means: bootstrap, and Student's t for few values."""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Sequence
from functools import cache

import numpy as np
from numpy.typing import ArrayLike

from srl_agents import seeding

RESAMPLES = 2_000
CONFIDENCE = 0.95
DRAWN_AT_ONCE = 2**18


def bootstrap_interval(
    values: Sequence[float], seed: int, clusters: Sequence[Hashable] | None = None
) -> tuple[float, float] | None:
    """Return the 95 % percentile bootstrap interval of the mean (Efron 1979).

    Values of one cluster are drawn together. None for a single cluster.
    """
    numbers: dict[Hashable, int] = {}
    own = range(len(values)) if clusters is None else clusters
    member = [numbers.setdefault(cluster, len(numbers)) for cluster in own]
    if len(numbers) < 2:
        return None
    sums = np.bincount(member, weights=np.asarray(values, dtype=np.float64))
    sizes = np.bincount(member)
    rng = seeding.generator(seed, "bootstrap")
    means = []
    at_once = max(1, DRAWN_AT_ONCE // len(sums))
    for done in range(0, RESAMPLES, at_once):
        drawn = rng.integers(len(sums), size=(min(at_once, RESAMPLES - done), len(sums)))
        means.extend(sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1))
    return percentile_interval(means)


def percentile_interval(resampled: ArrayLike) -> tuple[float, float]:
    """Return the middle 95 % of resampled values without NaN."""
    tail = (1.0 - CONFIDENCE) / 2
    low, high = np.nanquantile(np.asarray(resampled, dtype=np.float64), [tail, 1.0 - tail])
    return float(low), float(high)


def mean_interval(
    values: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """Return (mean, low, high): Student's t interval of the mean of independent values.

    The interval suits a few values, such as one per seed, of which a bootstrap interval is too
    narrow. NaN is left out. Both ends are NaN for a single value.
    """
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return math.nan, math.nan, math.nan
    mean = statistics.fmean(known)
    if len(known) < 2:
        return mean, math.nan, math.nan
    error = statistics.stdev(known) / math.sqrt(len(known))
    half = t_quantile(confidence, len(known) - 1) * error
    return mean, mean - half, mean + half


@cache
def t_quantile(confidence: float, freedom: int) -> float:
    """Return the t for which |T| <= t with this probability.

    Args:
        confidence: Probability in (0, 1).
        freedom: Degrees of freedom of Student's T, at least 1.
    """
    # The distribution function is a finite sum, and SciPy is no dependency.
    low, high = 0.0, 1.0
    while _within(high, freedom) < confidence:
        low, high = high, 2.0 * high
    while low < (middle := (low + high) / 2) < high:
        low, high = (middle, high) if _within(middle, freedom) < confidence else (low, middle)
    return high


def _within(t: float, freedom: int) -> float:
    """Return P(|T| <= t) of Student's T (Abramowitz and Stegun 1964, 26.7.3 and 26.7.4)."""
    angle = math.atan2(t, math.sqrt(freedom))
    odd = freedom % 2
    term, total = (math.cos(angle) if odd else 1.0), 0.0
    for k in range(2 if odd else 1, freedom, 2):
        total += term
        term *= k / (k + 1) * math.cos(angle) ** 2
    total *= math.sin(angle)
    return 2.0 / math.pi * (angle + total) if odd else total
