"""Rankings of players on games worked by hand."""

from functools import partial

import numpy as np
from numpy.testing import assert_allclose

from srl_extensions.judging.cross_play import alpha_rank, arena, play_cross, rankings
from tests.srl_extensions.judging.contest import Contest, Number, players

ROCK_PAPER_SCISSORS = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0.0]])


def test_rankings_by_hand():
    made = arena("contest", Contest)
    games = play_cross(made, players(low=Number(1), high=Number(2), same=Number(2)), episodes=2)
    found = rankings(
        np.array([[0, -1, -1], [1, 0, 0], [1, 0, 0.0]]), ["low", "high", "same"], games
    )
    assert [one["mean_return"] for one in found.values()] == [-1.0, 0.5, 0.5]
    assert [one["won"] for one in found.values()] == [0.0, 0.75, 0.75]
    assert found["low"]["alpha_rank"] < 0.1 < found["high"]["alpha_rank"]
    silent = arena("contest", partial(Contest, names_winner=False))
    games = play_cross(silent, players(low=Number(1), high=Number(2)), episodes=1)
    assert rankings(np.eye(2), ["low", "high"], games)["low"]["won"] is None


def test_alpha_rank_of_a_cycle_is_even():
    assert_allclose(alpha_rank(ROCK_PAPER_SCISSORS), np.full(3, 1 / 3), atol=1e-12)


def test_alpha_rank_of_two_players_by_hand():
    # A mutant that wins takes over with probability .99, one that loses with .01.
    assert_allclose(alpha_rank([[0.0, 0.5], [-0.5, 0.0]]), [0.99, 0.01], rtol=1e-9)
