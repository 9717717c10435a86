from itertools import product

import numpy as np
import pytest

from srl_agents.baselines.solutions import best_plan, shares_met
from srl_agents.scripted.memory_one import distributions

GAME = np.array([[0.9, 0.6], [0.6, 0.75]])  # [own action, other's action]
TIT_FOR_TAT = np.array([1.0, 0.0, 0.0, 1.0, 1.0])  # by situation: it repeats our action


def value(policy, replies, payoff, rounds):
    """Return the mean reward of policy[t][situation] by enumeration of all episodes."""

    def from_here(t, situation):
        if t == rounds:
            return 0.0
        own, q = policy[t][situation], replies[situation]
        return sum(
            chance * (payoff[own, other] + from_here(t + 1, 1 + 2 * own + other))
            for other, chance in ((0, 1 - q), (1, q))
        )

    return from_here(0, 0) / rounds


def test_best_plan_equals_enumeration():
    generator = np.random.default_rng(0)
    for _ in range(3):
        replies, payoff = generator.random(5), generator.random((2, 2))
        best = best_plan(distributions(replies)[None], payoff[None], 2)
        # Two rounds: one action at the start, then one in each of the four situations.
        values = [
            value([[first] * 5, [0, *second]], replies, payoff, 2)
            for first, *second in product((0, 1), repeat=5)
        ]
        assert best.value_N[0] == pytest.approx(max(values))


def test_best_response_to_tit_for_tat():
    # Tit for tat opens with 1. Competing costs one mismatch and earns .9 in the next 31 rounds.
    best = best_plan(distributions(TIT_FOR_TAT)[None], GAME[None], 32)
    assert best.value_N[0] == pytest.approx((0.6 + 31 * 0.9) / 32)
    assert best.action_NTC[0, 0, 0] == 0
    # With 2 rounds left the mismatch does not pay: .75 + .75, or .75 + .6, or .6 + .9.
    assert best_plan(distributions(TIT_FOR_TAT)[None], GAME[None], 2).value_N[0] == pytest.approx(
        1.5 / 2
    )


def test_shares_met_equal_enumeration():
    assert shares_met(TIT_FOR_TAT[None], 4).tolist() == [[0.25, 1.0]]
    replies = np.random.default_rng(2).random(5)
    cooperates = np.array([[0.0, 1.0], [0.0, 1.0]])
    for own in (0, 1):
        expected = value([[own] * 5] * 6, replies, cooperates, 6)
        assert shares_met(replies[None], 6)[0, own] == pytest.approx(expected)


def test_an_optimistic_plan_assumes_the_best_reply():
    # The partner cooperates, which pays .75. If it competed, competing would pay .9.
    always = distributions(np.ones((1, 5)))
    sure = best_plan(always, GAME[None], 1, np.zeros((1, 5)))
    assert (sure.action_NTC[0, 0, 0], sure.value_N[0]) == (1, pytest.approx(0.75))
    hoping = best_plan(always, GAME[None], 1, np.full((1, 5), 0.8))
    # .6 + .8 * (.9 - .6) against .75
    assert (hoping.action_NTC[0, 0, 0], hoping.value_N[0]) == (0, pytest.approx(0.84))


def test_three_actions():
    # Rock, paper, scissors against a partner that plays rock, then what beats our last action.
    game = np.array([[0.0, -1.0, 1.0], [1.0, 0.0, -1.0], [-1.0, 1.0, 0.0]])
    after = [(own + 1) % 3 for own in range(3) for _ in range(3)]
    replies = np.eye(3)[[0, *after]]
    assert best_plan(replies[None], game[None], 8).value_N[0] == pytest.approx(1.0)
