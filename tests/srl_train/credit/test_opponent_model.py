"""The partners' luck: by hand, taken off without bias, and less noise in what is left."""

import math

import numpy as np
import pytest

from srl_train.config import CreditConfig
from srl_train.credit import ASSIGNMENTS, Seating
from srl_train.credit.opponent_model import without_luck
from tests.srl_train.credit.games import game

TWO = Seating(("a", "b"))


def group_of(*games):
    """(a's choices, b's choices, a's rewards) per game; b's own rewards are 0."""
    return [game({"a": r, "b": [0.0] * len(b)}, {"a": a, "b": b}) for a, b, r in games]


def test_luck_by_hand():
    group = group_of(
        ([1], [1], [4.0]),
        ([1], [0], [0.0]),
        ([1], [1], [6.0]),
        ([0], [0], [2.0]),
    )
    # pay(1, 1) = 5, pay(1, 0) = 0, pay(0, 0) = 2; b chose 1 in 2 of 4 first turns.
    # Of a's choice 1: expected 2.5, so the luck is 2.5, -2.5, 2.5; what is left 1.5, 2.5, 3.5.
    # Beside a's choice 0 only b's 0 was met: no luck.
    assert without_luck(group, "a", TWO) == [[1.5], [2.5], [3.5], [2.0]]


def test_shares_are_of_the_situation():
    # After (1, 1) b repeats; after (0, 0) it chose 0 and 1 once each.
    group = group_of(
        ([1, 1], [1, 1], [0.0, 3.0]),
        ([0, 1], [0, 1], [0.0, 3.0]),
        ([0, 1], [0, 0], [0.0, 1.0]),
    )
    # pay(1, 1) = (0 + 3 + 3) / 3 = 2, pay(1, 0) = 1, pay(0, 0) = 0.
    # First turns: p(1) = 1/3, but beside a's 1 and its 0 one thing each... a's 1 met both later:
    # expected 1/3 * 2 + 2/3 * 1 = 4/3, luck 2 - 4/3 = 2/3. Beside 0 only 0 was met: none.
    # After (1, 1): p(1) = 1, no luck. After (0, 0): halves, expected 1.5, luck .5 and -.5.
    left = without_luck(group, "a", TWO)
    assert left[0] == pytest.approx([-2 / 3, 3.0])
    assert left[1] == pytest.approx([0.0, 2.5])
    assert left[2] == pytest.approx([0.0, 1.5])


def test_others_are_counted_by_side():
    seating = Seating(("r0", "r1", "b0", "b1"), {"r0": "r", "r1": "r", "b0": "b", "b1": "b"})

    def one(mate, rivals, reward):
        rewards = {"r0": [reward], "r1": [0.0], "b0": [0.0], "b1": [0.0]}
        return game(rewards, {"r0": [1], "r1": [mate], "b0": [rivals[0]], "b1": [rivals[1]]})

    # Who of the rivals chose what says nothing, which side did says all.
    group = [one(0, (0, 1), 1.0), one(0, (1, 0), 3.0), one(1, (0, 0), 8.0)]
    # pay: 2, 2, 8; expected 2/3 * 2 + 1/3 * 8 = 4; luck -2, -2, 4
    assert without_luck(group, "r0", seating) == [[3.0], [5.0], [4.0]]


def test_a_partner_that_follows_from_the_round_before_has_no_luck():
    rng = np.random.default_rng(0)
    games = []
    for _ in range(6):
        own = rng.integers(2, size=5).tolist()
        games.append((own, [1, *own[:-1]], rng.normal(size=5).tolist()))  # tit for tat
    group = group_of(*games)
    assert without_luck(group, "a", TWO) == [g.rewards["a"] for g in group]


def test_it_is_agent_turn_of_what_is_left():
    group = group_of(([1], [1], [4.0]), ([1], [0], [0.0]), ([1], [1], [6.0]), ([0], [0], [2.0]))
    made = ASSIGNMENTS["opponent_model"](CreditConfig(name="opponent_model"), 1.0)
    [found], _ = made.assign([group], TWO, made.init())
    # 1.5, 2.5, 3.5, 2: mean 2.375, squares .765625 + .015625 + 1.265625 + .140625, over 3
    deviation = math.sqrt(2.1875 / 3) + 1e-4
    assert [own["a"] for own in found] == [
        pytest.approx([gap / deviation]) for gap in (-0.875, 0.125, 1.125, -0.375)
    ]


PAY = {(0, 0): 0.8, (0, 1): 0.6, (1, 0): 0.6, (1, 1): 0.85}


def played(rng, games, turns=8):
    """Uniform choices against a uniform partner in the matrix game, without noise."""
    own, other = rng.integers(2, size=(2, games, turns))
    return group_of(
        *(
            (a.tolist(), b.tolist(), [PAY[i, j] for i, j in zip(a, b, strict=True)])
            for a, b in zip(own, other, strict=True)
        )
    )


def gradient(name, group):
    """Of the logit of choosing 1 in the first turn: mean of (a - 1/2) * advantage."""
    made = ASSIGNMENTS[name](CreditConfig(name=name, scale="none"), 1.0)
    [found], _ = made.assign([group], TWO, made.init())
    pushes = [
        (one.actions["a"][0] - 0.5) * own["a"][0] for one, own in zip(group, found, strict=True)
    ]
    return sum(pushes) / len(pushes)


def test_the_gradient_keeps_its_mean_and_loses_most_of_its_noise():
    groups = [played(np.random.default_rng(seed), 16) for seed in range(400)]
    plain = np.array([gradient("agent_turn", group) for group in groups])
    left = np.array([gradient("opponent_model", group) for group in groups])
    # Choosing 1 pays (.6 + .85) / 2 - (.8 + .6) / 2 = .025 more: gradient .025 / 4, less the
    # group's own share of its mean, 1/16.
    expected = 0.025 / 4 * 15 / 16
    error = left.std() / math.sqrt(len(left))
    assert abs(left.mean() - expected) < 4 * error + 0.1 * expected
    assert left.std() < 0.5 * plain.std()
