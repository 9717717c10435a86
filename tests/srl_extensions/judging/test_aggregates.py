"""Aggregates of scores, by hand."""

import pytest

from srl_extensions.judging.aggregates import (
    interquartile_mean,
    mean,
)

OURS = {"a": [0.1, 0.5, 0.9], "b": [0.2, 0.4, 3.0], "c": [0.6, 0.7, 1.1]}


def test_aggregates_by_hand():
    # Of .1 .2 .4 .5 .6 .7 .9 1.1 3 two are cut off at either end.
    assert interquartile_mean(OURS, 0).value == pytest.approx((0.4 + 0.5 + 0.6 + 0.7 + 0.9) / 5)
    # By task .5, 1.2, .8.
    assert mean(OURS, 0).value == pytest.approx(2.5 / 3)


def test_intervals_contain_the_value_and_depend_on_the_seed():
    for statistic in (interquartile_mean, mean):
        first, again = (statistic(OURS, 0) for _ in range(2))
        assert first == again
        low, high = first.interval
        assert low < first.value < high
    assert mean(OURS, 0).interval != mean(OURS, 1).interval


@pytest.mark.parametrize("scores", [{"a": [float("nan")]}, {"a": []}])
def test_missing_scores_are_refused(scores):
    with pytest.raises(ValueError, match="finite numbers, one or more"):
        mean(scores, 0)
