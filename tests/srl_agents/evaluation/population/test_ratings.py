"""Ratings recover a known order, by winners and by returns."""

from functools import partial
from itertools import combinations

import pytest

from srl_agents.evaluation.population.arena import arena
from srl_agents.evaluation.population.cross_play import Game, play_cross
from srl_agents.evaluation.population.ratings import matches_of, rate
from tests.srl_agents.evaluation.population.contest import Contest, Number, players

EIGHT = {f"player_{rank}": Number(12 * rank, 100) for rank in (3, 7, 0, 5, 1, 6, 2, 4)}


def kendall_tau(found, known):
    pairs = list(combinations(known, 2))
    agree = sum(found.index(a) < found.index(b) for a, b in pairs)
    return (2 * agree - len(pairs)) / len(pairs)


@pytest.mark.parametrize("names_winner", [True, False])
@pytest.mark.parametrize("seed", [0, 1])
def test_eight_players_of_known_strength_are_put_in_order(names_winner, seed):
    made = arena("contest", partial(Contest, names_winner=names_winner))
    games = play_cross(made, players(**EIGHT), episodes=30, seed=seed)
    by, matches = matches_of(games, made.two_sided)
    assert by == ("winners" if names_winner else "returns with the same partners")
    rated = rate(list(EIGHT), matches, by, seed)
    strongest_first = [f"player_{rank}" for rank in reversed(range(8))]
    assert kendall_tau([one.player for one in rated.ratings], strongest_first) >= 0.9
    best, worst = rated.ratings[0], rated.ratings[-1]
    assert worst.interval[1] < best.interval[0]
    assert all(low < one.mu < high for one in rated.ratings for low, high in [one.interval])


def test_more_games_make_a_rating_surer_and_no_games_leave_it_as_it_began():
    matches = [{"a": 1.0, "b": 0.0}] * 5
    few, many = (rate(["a", "b", "c"], matches * times, "winners", 0) for times in (1, 10))
    sigma = {one.player: one.sigma for one in few.ratings}
    assert {one.player: one.sigma for one in many.ratings}["a"] < sigma["a"] < sigma["c"]
    assert [one.player for one in many.ratings] == ["a", "c", "b"]
    assert few.history["a"][0] == (0, 25.0) and few.history["a"][-1][0] == 5


def test_players_are_compared_where_they_held_the_same_place_beside_the_same_partner():
    def game(first, second, start, own, other):
        return Game(first, second, 0, start, 7, own, other, turns=1)

    games = [
        game("a", "c", 0, 3.0, 9.0),
        game("b", "c", 0, 2.0, 9.0),
        game("c", "c", 0, 8.0, 8.0),  # with itself: it met no partner of the others
        game("a", "c", 1, 5.0, 9.0),
    ]
    _, matches = matches_of(games, two_sided=False)
    assert matches == [{"a": 3.0, "b": 2.0}]
    _, both = matches_of(games, two_sided=True)
    assert both == [{"a": 3.0, "b": 2.0}]  # c alone met a, and c alone met b
