"""Columns keep means of everything, in bounded memory."""

import math

import pytest

from srl_train.metrics.live.columns import Columns


def filled(rounds, most=8):
    columns = Columns(most)
    for number in range(rounds):
        row = {"a": {"b": float(number), "updated": number % 2 == 0, "words": ["x"]}, "c": None}
        columns.add(number, row | ({"late": 1} if number >= 10 else {}))
    return columns


def test_every_round_is_a_point_at_first():
    columns = filled(5)
    assert columns.rounds == [0, 1, 2, 3, 4] and columns.stride == 1
    assert columns.series("a", "b") == [0, 1, 2, 3, 4]
    assert columns.names("a") == ["b", "updated"] and columns.names() == ["a"]


def test_points_become_means_of_more_and_more_rounds():
    columns = filled(21)
    assert columns.stride == 4
    assert columns.rounds == [3, 7, 11, 15, 19, 20]  # the last stands for one round so far
    assert columns.series("a", "b") == [1.5, 5.5, 9.5, 13.5, 17.5, 20]
    assert columns.series("a", "updated") == [0.5, 0.5, 0.5, 0.5, 0.5, 1]
    assert columns.series("late")[2:] == [1, 1, 1, 1]


def test_what_was_not_measured_is_missing():
    assert all(map(math.isnan, filled(3).series("a", "words")))
    columns = Columns(4)
    for number in range(9):
        columns.add(number, {"loss": 2.0} if number % 4 == 0 else {})
    assert columns.stride == 4
    assert columns.series("loss") == [2, 2, 2]


@pytest.mark.parametrize("rounds", [7, 8, 9, 500])
def test_points_stay_few_and_the_last_round_is_always_there(rounds):
    columns = filled(rounds)
    assert len(columns.rounds) <= 8
    assert columns.rounds[-1] == rounds - 1
    assert len(columns.series("a", "b")) == len(columns.rounds)


def test_columns_stay_few(monkeypatch):
    monkeypatch.setattr("srl_train.metrics.live.columns.MOST_COLUMNS", 10)
    columns = Columns()
    for number in range(50):
        columns.add(number, {f"name {number}": 1.0})
    assert len(columns.names()) == 10
