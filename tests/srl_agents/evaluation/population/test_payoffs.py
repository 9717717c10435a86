"""Gaps between self-play and cross-play, by hand."""

import numpy as np
import pytest

from srl_agents.evaluation.population.payoffs import gaps, means

PLAYERS = ("a", "b", "c", "other")
# What the row earns with the column, from two starts that differ by 1.
RETURNS = np.array([[5, 1, 2, 9], [1, 6, 3, 9], [2, 3, 7, 9], [9, 9, 9, 9.0]])
RETURNS_RCE = np.stack([RETURNS - 0.5, RETURNS + 0.5], axis=2)
GROUPS = {"a": "method", "b": "method", "c": "method", "other": "other"}


def test_the_gap_by_hand():
    [gap] = gaps(RETURNS_RCE, PLAYERS, GROUPS, seed=0)
    assert gap.players == ("a", "b", "c")
    assert gap.self_play == pytest.approx(6.0)  # (5 + 6 + 7) / 3
    assert gap.cross_play == pytest.approx(2.0)  # (1 + 2 + 3) / 3
    assert gap.gap == pytest.approx(4.0)
    low, high = gap.interval
    # Of two seeds: a and b give 5.5 - 1, b and c 6.5 - 3; drawn unevenly, 7 * 2/3 + 5/3 - 2 ...
    assert 3.0 <= low < 4.0 < high <= 5.0


def test_two_seeds_have_a_gap_without_an_interval_and_one_has_none():
    groups = {"a": "method", "b": "method", "c": "single", "other": "other"}
    [gap] = gaps(RETURNS_RCE, PLAYERS, groups, seed=0)
    assert (gap.self_play, gap.cross_play, gap.interval) == (5.5, 1.0, None)


def test_what_failed_is_left_out_and_a_pair_without_games_has_no_gap():
    returns = RETURNS_RCE.copy()
    returns[0, 1, 0] = np.nan
    assert means(returns)[0, 1] == 1.5
    returns[0, 1, 1] = np.nan
    assert means(returns) is None
    assert gaps(returns, PLAYERS, GROUPS, seed=0) == []
