"""Exact exploitability in repeated games, by hand and against every plan there is."""

from itertools import product

import numpy as np
import pytest

from srl_agents.evaluation.population.matrix_games import best_responses
from srl_agents.evaluation.population.repeated_games import exploit_memory_one

DILEMMA = np.array([[1.0, 5.0], [0.0, 3.0]])  # own, other; 1 is cooperating


def test_one_round_is_the_matrix_game():
    for chance in (0.0, 0.3, 1.0):
        found = exploit_memory_one(DILEMMA, [chance, 0, 0, 0, 0], rounds=1)
        mixed = [1 - chance, chance]
        row, _ = best_responses([DILEMMA, DILEMMA.T], [mixed, mixed])
        assert found == pytest.approx((row.value, row.best), abs=1e-12)


def test_tit_for_tat_by_hand():
    # With itself 3 a round; the best response cooperates twice and competes at the end: 3, 3, 5.
    found = exploit_memory_one(DILEMMA, [1, 0, 1, 0, 1], rounds=3)
    assert found.value == pytest.approx(3.0)
    assert found.best == pytest.approx(11 / 3)
    assert found.gain == pytest.approx(2 / 3)


def test_the_best_response_is_the_best_of_all_plans():
    rng = np.random.default_rng(0)
    for _ in range(5):
        payoff, chances = rng.normal(size=(2, 2)), rng.random(5)
        found = exploit_memory_one(payoff, chances, rounds=2)
        worth = []
        # What to play first, and then after each of the other's two first actions.
        for first, after_0, after_1 in product((0, 1), repeat=3):
            total = 0.0
            for met in (0, 1):
                chance = chances[0] if met else 1 - chances[0]
                # The partner sees its own action first: situations 1 + 2 * own + other.
                again = chances[1 + 2 * met + first]
                own = (after_0, after_1)[met]
                later = (1 - again) * payoff[own, 0] + again * payoff[own, 1]
                total += chance * (payoff[first, met] + later)
            worth.append(total / 2)
        assert found.best == pytest.approx(max(worth), abs=1e-12)
        assert found.value <= found.best + 1e-12


def test_no_round_is_no_game():
    with pytest.raises(ValueError, match="rounds is 0"):
        exploit_memory_one(DILEMMA, [1, 0, 1, 0, 1], rounds=0)
