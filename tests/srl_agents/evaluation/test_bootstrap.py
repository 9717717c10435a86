"""Bootstrap intervals with clusters, and Student's t intervals."""

import math

import numpy as np
import pytest

from srl_agents.evaluation import bootstrap
from srl_agents.evaluation.bootstrap import bootstrap_interval, mean_interval

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


def test_mean_interval_by_hand():
    mean, low, high = mean_interval([0.80, 0.81, 0.82])
    # t(2) = 4.3027, standard deviation .01: 4.3027 * .01 / sqrt(3) = .024842
    assert (mean, high - mean, mean - low) == pytest.approx((0.81, 0.024842, 0.024842), abs=1e-6)
    assert mean_interval([0.5, math.nan])[0] == 0.5
    assert math.isnan(mean_interval([0.5])[1]) and math.isnan(mean_interval([])[0])


@pytest.mark.parametrize(
    ("confidence", "freedom", "quantile"),
    [
        (0.95, 1, 12.706),
        (0.95, 2, 4.303),
        (0.95, 11, 2.201),
        (0.95, 30, 2.042),
        (0.9, 4, 2.132),
        (0.99, 5, 4.032),
        (0.999, 120, 3.373),
    ],
)
def test_quantiles_of_students_t(confidence, freedom, quantile):
    assert bootstrap.t_quantile(confidence, freedom) == pytest.approx(quantile, abs=1e-3)
