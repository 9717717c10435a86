"""Bootstrap intervals with clusters."""

import numpy as np
import pytest

from srl_agents.evaluation.bootstrap import bootstrap_interval

VALUES = [0.0, 0.25, 0.5, 1.0, 1.0, 0.0, 0.75, 0.5]


def test_values_of_one_cluster_count_once():
    once = bootstrap_interval(VALUES, seed=3)
    four_times = np.repeat(VALUES, 4)
    together = bootstrap_interval(four_times, 3, np.repeat(range(len(VALUES)), 4))
    assert together == pytest.approx(once)
    assert bootstrap_interval([0.0, 1.0], 0, ["a", "a"]) is bootstrap_interval([1.0], 0) is None
    low, high = bootstrap_interval(four_times, seed=3)
    assert high - low < 0.7 * (once[1] - once[0])


@pytest.mark.parametrize("largest", [1, 5])
def test_intervals_have_the_stated_coverage(largest):
    rng = np.random.default_rng(3)
    covered = 0
    for trial in range(60):
        sizes = rng.integers(1, largest + 1, size=40)
        clusters = np.repeat(range(40), sizes)
        values = np.repeat(rng.normal(1.0, 2.0, size=40), sizes)
        low, high = bootstrap_interval(values, trial, [f"problem {one}" for one in clusters])
        covered += low <= 1.0 <= high
    assert 52 <= covered <= 60
