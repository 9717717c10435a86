"""Bootstrap confidence intervals of means."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from srl_agents import seeding

RESAMPLES = 2_000
BLOCK = 50  # resamples drawn at once, a divisor of RESAMPLES
CONFIDENCE = 0.95


def bootstrap_interval(
    values: Sequence[float], seed: int, clusters: Sequence[Hashable] | None = None
) -> tuple[float, float] | None:
    """Compute the 95 % percentile bootstrap interval of the mean (Efron 1979).

    Args:
        values: Numbers whose mean is estimated.
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
    resampled = (
        rng.integers(len(sums), size=(BLOCK, len(sums))) for _ in range(RESAMPLES // BLOCK)
    )
    return percentile_interval([sums[i].sum(axis=1) / sizes[i].sum(axis=1) for i in resampled])


def percentile_interval(resampled: ArrayLike) -> tuple[float, float]:
    """Return the 2.5 % and 97.5 % quantiles of at least one value; NaN values are ignored."""
    tail = (1.0 - CONFIDENCE) / 2
    low, high = np.nanquantile(np.asarray(resampled, dtype=np.float64), [tail, 1.0 - tail])
    return float(low), float(high)
