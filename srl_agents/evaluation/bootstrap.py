"""Confidence intervals of means: bootstrap, and Student's t for a few values."""

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
"""Maximum number of random indices in memory."""


def bootstrap_interval(
    values: Sequence[float], seed: int, clusters: Sequence[Hashable] | None = None
) -> tuple[float, float] | None:
    """Compute the 95 % percentile bootstrap interval of the mean (Efron 1979).

    Args:
        values: Values.
        seed: Seed of the resampling.
        clusters: Cluster of each value; values of one cluster are drawn together. By default each
            value is its own cluster.

    Returns:
        (low, high), or None for fewer than two clusters.
    """
    numbers: dict[Hashable, int] = {}
    labels = range(len(values)) if clusters is None else clusters
    member = [numbers.setdefault(cluster, len(numbers)) for cluster in labels]
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
    """Return the 2.5 % and 97.5 % quantiles of resampled values; NaN is ignored."""
    tail = (1.0 - CONFIDENCE) / 2
    low, high = np.nanquantile(np.asarray(resampled, dtype=np.float64), [tail, 1.0 - tail])
    return float(low), float(high)


def mean_interval(
    values: Sequence[float], confidence: float = CONFIDENCE
) -> tuple[float, float, float]:
    """Compute Student's t interval of the mean of a few values, such as one per seed.

    A bootstrap interval of fewer than about ten values is too narrow.

    Args:
        values: Independent values; NaN and infinities are ignored.
        confidence: Confidence level in (0, 1).

    Returns:
        (mean, low, high); NaN where there are too few values.
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
    """Return the t with P(|T| <= t) = `confidence` for Student's T of `freedom` degrees."""
    # SciPy is not a dependency. The distribution function is a finite sum, inverted by bisection.
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
