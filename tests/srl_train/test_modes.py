import json
import math

import pytest

from srl_train.config.run import RunConfig
from srl_train.modes import (
    BALANCE_RATE,
    MODES,
    competitive,
    cooperative,
    hierarchical,
    mixed,
    rank_bonuses,
    zero_sum,
)

TEAMS = {"r0": "red", "r1": "red", "b0": "blue", "b1": "blue"}


def shaped(mode, rewards, teams=None, state=None):
    given = mode.shape(rewards, teams, mode.init() if state is None else state)
    return {seat: pytest.approx(turns) for seat, turns in given.items()}


def test_cooperative_blends_each_turn_with_the_mean_of_all():
    rewards = {"a": [1.0, 0.0], "b": [3.0, 4.0]}  # means 2, 2
    assert shaped(cooperative(0.25), rewards) == {
        "a": [1.25, 0.5],  # .75 * 1 + .25 * 2, .75 * 0 + .25 * 2
        "b": [2.75, 3.5],
    }


def test_an_agent_that_left_does_not_count_in_later_means():
    rewards = {"a": [1.0], "b": [3.0, 5.0], "c": []}
    assert shaped(cooperative(0.5), rewards) == {"a": [1.5], "b": [2.5, 5.0], "c": []}


def test_competitive_ranks_an_agent_that_joined_by_its_rewards():
    rewards = {"a": [1.0, 1.0], "b": [math.nan, 3.0]}
    found = competitive(1.0).shape(rewards, None, {})
    assert found["a"] == [1.0, 1.0] and found["b"][1] == 3.5


def test_competitive_adds_the_rank_bonus_to_the_last_reward():
    rewards = {"a": [1.0, 1.0], "b": [5.0, 0.0], "c": [0.0, 0.0], "d": [0.0, 3.0]}
    # returns 2, 5, 0, 3: ranks 3, 1, 4, 2; bonuses .25, .75, 0, .5; times .4
    assert shaped(competitive(0.4), rewards) == {
        "a": [1.0, 1.1],
        "b": [5.0, 0.3],
        "c": [0.0, 0.0],
        "d": [0.0, 3.2],
    }


@pytest.mark.parametrize(
    ("returns", "expected"),
    [
        ({"a": 2.0, "b": 2.0, "c": 1.0, "d": 0.0}, [0.625, 0.625, 0.25, 0.0]),  # ranks 1.5 twice
        ({"a": 1.0, "b": 2.0, "c": 1.0, "d": 1.0}, [0.25, 0.75, 0.25, 0.25]),  # rank 3 thrice
        (dict.fromkeys("abcd", 7.0), [0.375] * 4),  # rank 2.5 four times
        ({"a": -3.0, "b": -2.0}, [0.0, 0.5]),
        ({"a": 9.0}, [0.0]),
        ({}, []),
    ],
)
def test_ties_share_the_mean_of_their_ranks(returns, expected):
    assert list(rank_bonuses(returns).values()) == pytest.approx(expected)


def test_mixed_blends_both_by_the_balance():
    rewards = {"a": [1.0], "b": [3.0]}
    # cooperative (.5): 1.5, 2.5; competitive (.4): 1 + 0, 3 + .4 * 1/2 = 3.2
    mode = mixed(0.5, 0.4)
    assert shaped(mode, rewards) == {"a": [1.25], "b": [2.85]}  # halves
    assert shaped(mode, rewards, state={"balance": 0.0}) == {"a": [1.5], "b": [2.5]}
    assert shaped(mode, rewards, state={"balance": 1.0}) == {"a": [1.0], "b": [3.2]}


def test_the_balance_follows_the_cooperation_rate():
    mode = mixed()
    assert BALANCE_RATE == 0.1
    state = mode.update(mode.init(), 1.0)
    assert state == {"balance": pytest.approx(0.55)}  # .9 * .5 + .1 * 1
    state = mode.update(json.loads(json.dumps(state)), 0.0)
    assert state == {"balance": pytest.approx(0.495)}  # .9 * .55
    assert mode.update(state, None) == state
    for _ in range(500):
        state = mode.update(state, 1.0)
    assert 0.999 < state["balance"] <= 1.0


def test_hierarchical_gives_leaders_the_mean_and_followers_the_blend():
    rewards = {"a": [1.0, 6.0], "b": [3.0, 0.0], "c": [5.0, 0.0]}  # means 3, 2
    assert shaped(hierarchical(0.5), rewards) == {
        "a": [3.0, 2.0],
        "b": [3.0, 1.0],
        "c": [4.0, 1.0],
    }
    assert shaped(hierarchical(0.0, leader="c"), rewards)["c"] == [3.0, 2.0]


@pytest.mark.parametrize(
    ("leader", "teams", "expected"),
    [
        (None, None, {"r0": ("r1", "b0", "b1")}),
        ("b0", None, {"b0": ("r0", "r1", "b1")}),
        (None, TEAMS, {"r0": ("r1",), "b0": ("b1",)}),
        ("b1", TEAMS, {"b1": ("b0",), "r0": ("r1",)}),
    ],
)
def test_leaders_act_first_and_their_followers_see_it(leader, teams, expected):
    assert hierarchical(leader=leader).speaks_first(list(TEAMS), teams) == expected


@pytest.mark.parametrize("name", sorted(MODES))
def test_every_mode_keeps_the_number_of_rewards_and_its_inputs(name):
    mode = MODES[name](RunConfig(mode={"name": name}).mode)
    rewards = {"r0": [1.0, 2.0], "r1": [0.0, 1.0], "b0": [3.0, 3.0], "b1": [0.5]}
    state = mode.init()
    for teams in (None, TEAMS):
        given = mode.shape(rewards, teams, state)
        assert {seat: len(turns) for seat, turns in given.items()} == {
            "r0": 2,
            "r1": 2,
            "b0": 2,
            "b1": 1,
        }
    assert rewards == {"r0": [1.0, 2.0], "r1": [0.0, 1.0], "b0": [3.0, 3.0], "b1": [0.5]}
    assert mode.shape({}, None, state) == {}
    assert json.loads(json.dumps(mode.update(state, 0.5))) == mode.update(state, 0.5)


def test_zero_sum_rewards_are_the_lead_of_a_team():
    rewards = {"r0": [1.0, 4.0], "r1": [3.0], "b0": [0.0, 1.0], "b1": [2.0, 3.0]}
    # turn 0: red 2, blue 1; turn 1: red 4 (r0 alone is left), blue 2
    assert shaped(zero_sum(), rewards, TEAMS) == {
        "r0": [1.0, 2.0], "r1": [1.0], "b0": [-1.0, -2.0], "b1": [-1.0, -2.0],
    }  # fmt: skip
    # without teams each against all others: 1 - (2 + 6) / 2, ...
    alone = {"a": [1.0], "b": [2.0], "c": [6.0, 5.0]}
    assert shaped(zero_sum(), alone) == {"a": [-3.0], "b": [-1.5], "c": [4.5, 5.0]}
