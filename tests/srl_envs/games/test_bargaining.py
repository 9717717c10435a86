"""Rules of negotiation, and measures of outcomes compared with brute force."""

import numpy as np
import pytest
from pytest import approx

from srl_envs.errors import EnvConfigError
from srl_envs.games import bargaining
from srl_envs.games.bargaining import (
    ACCEPT,
    FIRST_PROPOSAL,
    PASS,
    WALK_AWAY,
    Bargain,
    NegotiationRules,
)

TWO_BY_TWO = (("price", ("low", "high")), ("delivery", ("early", "late")))
POINTS = [((60, 0), (40, 0)), ((0, 30), (0, 70))]
"""Seat 0 wants it low (60) and early (40); seat 1 high (30) and late (70)."""
LOW_EARLY, LOW_LATE, HIGH_EARLY, HIGH_LATE = range(4)
UTILITIES = [(100, 0), (60, 70), (40, 30), (0, 100)]


def bargain(offers="alternating", seats=2, points=None, first=0, seed=0):
    rules = NegotiationRules(seats, TWO_BY_TWO, offers)
    generator = np.random.default_rng(seed)
    begun = Bargain(rules, points or POINTS, [20] * seats, generator)
    if offers == "alternating":
        begun.mover = first
    return begun


def propose(deal):
    return FIRST_PROPOSAL + deal


def test_turns_alternate_until_one_accepts():
    begun = bargain(first=1)
    assert begun.play([propose(LOW_EARLY), propose(HIGH_LATE)]) == [True, False]
    assert begun.proposals == [None, HIGH_LATE] and begun.stands == [False, True]
    assert begun.play([propose(LOW_LATE), PASS]) == [False, False]
    assert begun.stands == [True, False] and begun.agreed is None
    assert not begun.may_accept(0) and begun.may_accept(1)
    assert begun.play([PASS, ACCEPT]) == [False, False]
    assert begun.agreed == LOW_LATE and not begun.walked_away


@pytest.mark.parametrize("offers", bargaining.OFFERS)
def test_walking_away_ends_the_negotiation(offers):
    begun = bargain(offers)
    begun.play([WALK_AWAY, PASS])
    assert begun.walked_away and begun.agreed is None


def test_three_agents_must_all_accept():
    begun = bargain(seats=3, points=[*POINTS, POINTS[0]])
    begun.play([propose(LOW_LATE), PASS, PASS])
    begun.play([PASS, ACCEPT, PASS])
    assert begun.agreed is None and begun.consents == [True, True, False]
    begun.play([PASS, PASS, propose(LOW_EARLY)])  # a new proposal starts anew
    assert begun.consents == [False, False, True]
    begun.play([ACCEPT, PASS, PASS])
    begun.play([PASS, PASS, PASS])
    begun.play([PASS, PASS, PASS])
    assert not begun.may_accept(0)  # it has
    begun.play([PASS, PASS, PASS])
    begun.play([PASS, ACCEPT, PASS])
    assert begun.agreed == LOW_EARLY


def test_simultaneous_deals_by_equal_proposals_or_acceptance():
    begun = bargain("simultaneous")
    assert begun.play([propose(LOW_EARLY), propose(LOW_EARLY)]) == [False, False]
    assert begun.agreed == LOW_EARLY
    begun = bargain("simultaneous")
    assert begun.play([ACCEPT, propose(HIGH_LATE)]) == [True, False]  # no open proposal yet
    begun.play([propose(LOW_LATE), PASS])
    begun.play([propose(LOW_EARLY), ACCEPT])  # refers to the earlier proposal
    assert begun.agreed == LOW_LATE
    begun = bargain("simultaneous")
    begun.play([propose(LOW_EARLY), propose(HIGH_LATE)])
    begun.play([propose(LOW_LATE), PASS])
    begun.play([PASS, propose(LOW_LATE)])
    assert begun.agreed == LOW_LATE


def test_mutual_acceptance_is_decided_by_chance():
    ends = set()
    for seed in range(20):
        begun = bargain("simultaneous", seed=seed)
        begun.play([propose(LOW_EARLY), propose(HIGH_LATE)])
        begun.play([ACCEPT, ACCEPT])
        ends.add(begun.agreed)
    assert ends == {LOW_EARLY, HIGH_LATE}


@pytest.mark.parametrize(
    ("agreed", "efficient", "welfare", "nash", "rational"),
    [
        (LOW_EARLY, True, 100 / 130, 0.0, [True, False]),  # (100-20) * max(0, 0-20)
        (LOW_LATE, True, 1.0, 0.4 * 0.5, [True, True]),
        (HIGH_EARLY, False, 70 / 130, 0.2 * 0.1, [True, True]),  # low and late is better for both
        (HIGH_LATE, True, 100 / 130, 0.0, [False, True]),
        (None, False, 40 / 130, 0.0, [True, True]),
    ],
)
def test_an_end_by_hand(agreed, efficient, welfare, nash, rational):
    found = bargaining.assessment(UTILITIES, [20, 20], agreed)
    assert found["pareto_efficient"] == efficient
    assert found["welfare_share"] == approx(welfare)
    assert found["nash_product"] == approx(nash) and found["nash_share"] == approx(nash / 0.2)
    assert found["individually_rational"] == rational
    worth = (20, 20) if agreed is None else UTILITIES[agreed]
    assert found["utilities"] == [points / 100 for points in worth]


def test_preferences_are_drawn_as_documented():
    rng = np.random.default_rng(3)
    opposed = 0
    for _ in range(400):
        points, reservations = NegotiationRules(conflict=0.75).draw(rng)
        for own in points:
            assert sum(map(max, own)) == 100 and all(min(options) == 0 for options in own)
            assert all(list(o) in (sorted(o), sorted(o, reverse=True)) for o in own)
        assert all(10 <= least <= 40 for least in reservations)
        one, other = points
        opposed += (
            sum(
                (a[0] < a[-1]) != (b[0] < b[-1])
                for a, b in zip(one, other, strict=True)
                if a[0] != a[-1] and b[0] != b[-1]
            )
            / 3
        )
    assert 0.65 < opposed / 400 < 0.8


@pytest.mark.parametrize(
    ("issues", "said"),
    [
        ({}, "issues must be a mapping"),
        ({"price": ["low"]}, r"issues\['price'\]"),
        ({"price": ["low", "low"]}, r"issues\['price'\]"),
        ({"price": [["low"], ["high"]]}, r"issues\['price'\]"),
        ({"price": ["low", "Very High"]}, r"issues\['price'\]"),
        ({f"i{k}": ["a", "b"] for k in range(10)}, "combinations .* from 2 to 1000, got 1024"),
        ({"price": ["a" * 150, "b" * 150]}, "number of letters .* from 1 to 200, got 305"),
    ],
)
def test_invalid_issues_raise(issues, said):
    with pytest.raises(EnvConfigError, match=said):
        bargaining.checked_issues(issues)
