"""OpenSkill ratings recover a known order; α-Rank on games worked by hand."""

from functools import partial
from itertools import combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose

from srl_extensions.judging.cross_play import PairGame, arena, play_cross
from srl_extensions.judging.ratings import alpha_rank, matches_of, rate
from tests.srl_extensions.judging.contest import Contest, Number, players

ROCK_PAPER_SCISSORS = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0.0]])
EIGHT = {f"player_{rank}": Number(12 * rank, 100) for rank in (3, 7, 0, 5, 1, 6, 2, 4)}


def kendall_tau(found, known):
    pairs = list(combinations(known, 2))
    agree = sum(found.index(a) < found.index(b) for a, b in pairs)
    return (2 * agree - len(pairs)) / len(pairs)


@pytest.mark.parametrize("names_winner", [True, False])
def test_ratings_order_eight_players_of_known_strength(names_winner):
    made = arena("contest", partial(Contest, names_winner=names_winner))
    games = play_cross(made, players(**EIGHT), episodes=30, seed=1)
    rated = rate(list(EIGHT), [(made.two_sided, games)], 1)
    assert rated["by"] == ("winners" if names_winner else "returns with the same partners")
    strongest_first = [f"player_{rank}" for rank in reversed(range(8))]
    ratings = rated["ratings"]
    assert kendall_tau([one["player"] for one in ratings], strongest_first) >= 0.9
    assert ratings[-1]["interval"][1] < ratings[0]["interval"][0]
    assert all(low < one["mu"] < high for one in ratings for low, high in [one["interval"]])


def test_players_are_compared_with_the_same_place_and_partner():
    def game(first, second, start, own, other):
        return PairGame(first, second, 0, start, 7, own, other, turns=1)

    games = [
        game("a", "c", 0, 3.0, 9.0),
        game("b", "c", 0, 2.0, 9.0),
        game("c", "c", 0, 8.0, 8.0),  # self-play compares with no other player
        game("a", "c", 1, 5.0, 9.0),
    ]
    for two_sided in (False, True):
        _, matches = matches_of(games, two_sided)
        assert matches == [{"a": 3.0, "b": 2.0}]


def test_alpha_rank_of_a_cycle_is_even():
    assert_allclose(alpha_rank(ROCK_PAPER_SCISSORS), np.full(3, 1 / 3), atol=1e-12)


def test_alpha_rank_of_two_players_by_hand():
    # A mutant that wins takes over with probability .99, one that loses with .01.
    assert_allclose(alpha_rank([[0.0, 0.5], [-0.5, 0.0]]), [0.99, 0.01], rtol=1e-9)
