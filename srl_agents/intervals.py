"""Confidence intervals of means, by bootstrap."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

import numpy as np

from srl_agents import seeding

RESAMPLES = 2_000
CONFIDENCE = 0.95


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
    for _ in range(RESAMPLES):
        drawn = rng.integers(len(sums), size=len(sums))
        means.append(sums[drawn].sum() / sizes[drawn].sum())
    tail = (1.0 - CONFIDENCE) / 2
    low, high = np.quantile(means, [tail, 1.0 - tail])
    return float(low), float(high)
