"""The arithmetic of both games against numbers worked by hand."""

from itertools import product

import pytest
from pytest import approx

from srl_envs.games.coop_compete import CoopCompeteRules
from srl_envs.games.team_battle import TeamBattleRules


def pair(**parameters):
    return CoopCompeteRules(num_agents=2, variant="pair", **parameters)


@pytest.mark.parametrize(
    ("level", "difficulty", "both_cooperate", "both_compete", "uniform"),
    [
        # scale .7: .7 + .25 L, .7 + .25 (1 - L); random actions: scale + .0125 for any L
        (0.2, 0.3, 0.75, 0.90, 0.7125),
        (0.6, 0.3, 0.85, 0.80, 0.7125),
        (0.8, 0.3, 0.90, 0.75, 0.7125),
        # scale .4
        (0.2, 0.6, 0.45, 0.60, 0.4125),
        (0.6, 0.6, 0.55, 0.50, 0.4125),
        (0.8, 0.6, 0.60, 0.45, 0.4125),
    ],
)
def test_pair(level, difficulty, both_cooperate, both_compete, uniform):
    rules = pair(cooperation_level=level, difficulty=difficulty)
    assert rules.expected_rewards([1, 1]) == approx((both_cooperate,) * 2)
    assert rules.expected_rewards([0, 0]) == approx((both_compete,) * 2)
    assert rules.expected_rewards([1, 0]) == approx((1 - difficulty - 0.1,) * 2)
    assert rules.expected_rewards([0, 1]) == approx((1 - difficulty - 0.1,) * 2)
    assert rules.uniform_value() == approx(uniform)
    assert rules.optimum() == approx(max(both_cooperate, both_compete))


def test_base_has_a_floor_and_rewards_are_never_negative():
    # scale .1: a mismatch leaves .1 - .1 = 0
    assert pair(difficulty=1.0).expected_rewards([0, 1]) == approx((0.0, 0.0))
    assert pair(difficulty=1.0, base_scale=0.5).expected_rewards([0, 1]) == (0.0, 0.0)
    assert pair(difficulty=0.95).expected_rewards([1, 1]) == approx((0.1 + 0.15,) * 2)


def test_population_by_hand():
    rules = CoopCompeteRules(num_agents=4, cooperation_level=0.6, difficulty=0.3)
    # a cooperator sees 2 of 3 others cooperate: .7 + .25 * .6 * 2/3 = .8
    # the competitor sees 3 of 3: .7 + .25 * .4 * 0 = .7
    assert rules.expected_rewards([1, 1, 0, 1]) == approx((0.8, 0.8, 0.7, 0.8))
    # a lone cooperator gets .7; the competitors see 1 of 3: .7 + .25 * .4 * 2/3
    assert rules.expected_rewards([0, 1, 0, 0]) == approx(
        (0.7 + 0.2 / 3, 0.7) + (0.7 + 0.2 / 3,) * 2
    )
    assert rules.uniform_value() == approx(0.7625)
    assert rules.optimum() == approx(0.85)


def by_enumeration(rules, seats):
    totals = [sum(rules.expected_rewards(actions)) for actions in product((0, 1), repeat=seats)]
    return sum(totals) / len(totals) / seats, max(totals) / seats


@pytest.mark.parametrize(
    ("rules", "seats"),
    [
        (CoopCompeteRules(num_agents=5, cooperation_level=0.3), 5),
        (CoopCompeteRules(num_agents=3, cooperation_level=0.9, difficulty=1.0), 3),
        (pair(cooperation_level=0.2), 2),
        (TeamBattleRules(), 8),
        (TeamBattleRules((2, 5), difficulty=0.95, cooperation_weight=0.6), 7),
    ],
)
def test_values_equal_enumeration_of_joint_actions(rules, seats):
    uniform, optimum = by_enumeration(rules, seats)
    assert rules.uniform_value() == approx(uniform)
    assert rules.optimum() == approx(optimum)


def test_teams_of_unequal_sizes():
    # Red of 1 competes against blue of 3 of which 2 cooperate: .7 - .125 + .15 * 2/3 = .675.
    # Blue's own share is 2/3: .7 + .25/6; cooperators - .05/3, the competitor + .15 * 0.
    rewards = TeamBattleRules((1, 3)).expected_rewards([0, 1, 1, 0])
    blue = 0.7 + 0.25 / 6
    assert rewards == approx((0.675, blue - 0.05 / 3, blue - 0.05 / 3, blue))


def test_selfish_equilibrium_of_the_documentation():
    # Competing gains .1125 p - .025 if all others cooperate with probability p: 0 at p = 2/9. A
    # competitor's value there: .7 + .25 * (p * 3/4 - .5) + .15 p
    rules, p = TeamBattleRules(), 2 / 9
    mates = p * 3 / 4
    assert rules.payoff(0, mates, p) == approx(rules.payoff(1, mates + 1 / 4, p))
    assert rules.independent_value(p) == approx(0.65)
