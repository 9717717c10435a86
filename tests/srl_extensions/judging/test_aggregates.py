"""Aggregates of scores, by hand."""

import pytest

from srl_extensions.judging.aggregates import (
    interquartile_mean,
    mean,
    probability_of_improvement,
)

OURS = {"a": [0.1, 0.5, 0.9], "b": [0.2, 0.4, 3.0], "c": [0.6, 0.7, 1.1]}
THEIRS = {"a": [0.1, 0.4], "b": [0.3, 0.3], "c": [0.0, 2.0]}


def test_aggregates_by_hand():
    # Of .1 .2 .4 .5 .6 .7 .9 1.1 3 two are cut off at either end.
    assert interquartile_mean(OURS, 0).value == pytest.approx((0.4 + 0.5 + 0.6 + 0.7 + 0.9) / 5)
    # By task .5, 1.2, .8.
    assert mean(OURS, 0).value == pytest.approx(2.5 / 3)


def test_the_probability_of_improvement_by_hand():
    # a: .1 ties once, .5 and .9 beat both: (.5 + 2 + 2) / 6. b: .4 and 3 beat both: 4 / 6.
    # c: all beat 0, none 2: 3 / 6.
    found = probability_of_improvement(OURS, THEIRS, 0).value
    assert found == pytest.approx((4.5 + 4 + 3) / 18)
    back = probability_of_improvement(THEIRS, OURS, 0).value
    assert found + back == pytest.approx(1.0)


def test_intervals_contain_the_value_and_depend_on_the_seed():
    for statistic in (interquartile_mean, mean):
        first, again = (statistic(OURS, 0) for _ in range(2))
        assert first == again
        low, high = first.interval
        assert low < first.value < high
    assert mean(OURS, 0).interval != mean(OURS, 1).interval
    low, high = probability_of_improvement(OURS, THEIRS, 0).interval
    assert 0 <= low < high <= 1


@pytest.mark.parametrize("scores", [{"a": [float("nan")]}, {"a": []}])
def test_missing_scores_are_refused(scores):
    with pytest.raises(ValueError, match="finite numbers, one or more"):
        mean(scores, 0)
    with pytest.raises(ValueError, match="tasks must be the same"):
        probability_of_improvement(OURS, scores, 0)
