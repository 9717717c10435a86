"""The partners' luck: by hand, taken off without bias, and less noise in what is left."""

import math

import pytest
from pydantic import TypeAdapter

from srl_extensions.research.opponent_model import rewards_without_luck
from srl_train.credit import CREDIT_SCHEMES, AgentRoles, CreditConfig
from tests.srl_train.credit_games import game

TWO = AgentRoles(("a", "b"))


def credit_section(**settings):
    return TypeAdapter(CreditConfig).validate_python(settings)


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
    # b chose 1 in 2 of 4 first turns. Of the other games, game 0: pay(1, 1) = 6, pay(1, 0) = 0,
    # luck 6 - 3. Game 1: pay(1, 1) = 5; (1, 0) is not there: their mean, 4; luck 4 - 4.5.
    # Game 2: 4 and 0, luck 4 - 2. Game 3: nobody else chose 0: the same mean twice, no luck.
    assert rewards_without_luck(group, "a", TWO) == [[1.0], [0.5], [4.0], [2.0]]


def test_shares_depend_on_the_whole_history():
    # The second turns of games 0 and 1 share all that was chosen before; game 2 stands alone.
    group = group_of(
        ([1, 1], [1, 1], [0.0, 3.0]),
        ([1, 1], [1, 0], [0.0, 1.0]),
        ([0, 1], [1, 0], [0.0, 5.0]),
    )
    # First turns: b chose 1 always, no luck. Second turns of games 0 and 1: halves. Game 0:
    # pay(1, 1) = 0 (game 1's first), pay(1, 0) = (1 + 5) / 2 = 3; luck 0 - 1.5. Game 1: pay(1, 1)
    # = (0 + 3) / 2 = 1.5, pay(1, 0) = 5; luck 5 - 3.25.
    assert rewards_without_luck(group, "a", TWO) == [[0.0, 4.5], [0.0, -0.75], [0.0, 5.0]]


def test_choices_of_other_agents_are_counted_by_team():
    seating = AgentRoles(("r0", "r1", "b0", "b1"), {"r0": "r", "r1": "r", "b0": "b", "b1": "b"})

    def one(mate, rivals, reward):
        rewards = {"r0": [reward], "r1": [0.0], "b0": [0.0], "b1": [0.0]}
        return game(rewards, {"r0": [1], "r1": [mate], "b0": [rivals[0]], "b1": [rivals[1]]})

    # Who of the rivals chose what says nothing, which side did says all.
    group = [one(0, (0, 1), 1.0), one(0, (1, 0), 3.0), one(1, (0, 0), 8.0)]
    # One rival of two, twice: game 0 is told 3 of it by game 1 and 8 of the other; expected
    # 2/3 * 3 + 1/3 * 8 = 14/3, luck -5/3. Game 1: 1 and 8, expected 10/3, luck -7/3. Game 2: its
    # own pair is nowhere else, so both pay 2: no luck.
    [first], [second], [third] = rewards_without_luck(group, "r0", seating)
    assert (first, second, third) == (pytest.approx(1 + 5 / 3), pytest.approx(3 + 7 / 3), 8.0)


def test_opponent_model_is_agent_turn_without_luck():
    group = group_of(([1], [1], [4.0]), ([1], [0], [0.0]), ([1], [1], [6.0]), ([0], [0], [2.0]))
    made = CREDIT_SCHEMES.load("opponent_model")(
        credit_section(name="opponent_model"), 1.0, "group"
    )
    [found], _ = made([group], TWO, {})
    # 1, .5, 4, 2: mean 1.875, squares .765625 + 1.890625 + 4.515625 + .015625, over 3
    deviation = math.sqrt(7.1875 / 3) + 1e-4
    assert [own["a"] for own in found] == [
        pytest.approx([gap / deviation]) for gap in (-0.875, -1.375, 2.125, 0.125)
    ]
