"""Confidence intervals of means: bootstrap, and Student's t for few values."""

from __future__ import annotations

import math
import statistics
from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from srl_agents import seeding

RESAMPLES = 2_000
CONFIDENCE = 0.95
DRAWN_AT_ONCE = 2**18
"""Clusters, of all resamples that are taken together; the numbers are the same for any."""


def bootstrap_interval(
    values: Sequence[float], seed: int, clusters: Sequence[Hashable] | None = None
) -> tuple[float, float] | None:
    """The 95 % percentile bootstrap interval of the mean (Efron 1979), from its own generator.

    Values of one cluster (each its own where not given) are drawn together, since they do not vary
    independently. None where there is only one.
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
    """The middle 95 % of a statistic's values over resamples; NaN is left out."""
    tail = (1.0 - CONFIDENCE) / 2
    low, high = np.nanquantile(np.asarray(resampled, dtype=np.float64), [tail, 1.0 - tail])
    return float(low), float(high)


# The .975 quantiles of Student's t with 1, 2, ... degrees of freedom.
_T = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)


def mean_interval(values: Sequence[float]) -> tuple[float, float, float]:
    """(mean, low, high): the 95 % interval by Student's t, for a few independent values such as
    one per seed, of which a bootstrap's interval is too narrow. NaN is left out; the ends are NaN
    for a single value."""
    known = [value for value in values if math.isfinite(value)]
    if not known:
        return math.nan, math.nan, math.nan
    mean = statistics.fmean(known)
    if len(known) < 2:
        return mean, math.nan, math.nan
    half = _t_quantile(len(known) - 1) * statistics.stdev(known) / math.sqrt(len(known))
    return mean, mean - half, mean + half


def _t_quantile(freedom: int) -> float:
    if freedom <= len(_T):
        return _T[freedom - 1]
    z = statistics.NormalDist().inv_cdf((1.0 + CONFIDENCE) / 2)
    # Cornish and Fisher's expansion (Abramowitz and Stegun 1964, 26.7.5).
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )
