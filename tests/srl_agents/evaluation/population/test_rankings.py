"""Alpha-rank and Nash averaging on games worked by hand."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from srl_agents.evaluation.population.alpha_rank import alpha_rank
from srl_agents.evaluation.population.nash_averaging import nash_average

ROCK_PAPER_SCISSORS = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0.0]])


def test_a_cycle_is_dwelt_on_evenly():
    for alpha in (None, 0.5, 200.0):
        assert_allclose(alpha_rank(ROCK_PAPER_SCISSORS, alpha), np.full(3, 1 / 3), atol=1e-12)


def test_two_players_by_hand():
    # a beats b by 2 * 0.5. A mutant a among b's takes over with (1 - e^-1) / (1 - e^-10),
    # b among a's with that times e^-9; time goes as what leads to a player.
    shares = alpha_rank([[0.0, 0.5], [-0.5, 0.0]], alpha=1.0, population=10)
    assert_allclose(shares[1] / shares[0], np.exp(-9.0), rtol=1e-9)
    assert_allclose(alpha_rank([[0.0, 0.5], [-0.5, 0.0]]), [0.99, 0.01], rtol=1e-9)


def test_neutral_players_are_dwelt_on_evenly():
    assert_allclose(alpha_rank(np.ones((4, 4))), np.full(4, 0.25))
    assert_allclose(alpha_rank([[1.0, 0.1 + 0.2], [0.3, 1.0]]), [0.5, 0.5])  # 0.30000000000000004


def test_strong_selection_overflows_nothing():
    shares = alpha_rank([[0.0, 500.0], [-500.0, 0.0]], alpha=1000.0)
    assert_allclose(shares, [1.0, 0.0], atol=1e-12)


def test_an_uneven_cycle_by_hand():
    # p @ margins = 0 for p = (3, 1, 2) / 6.
    weights, values = nash_average([[0, -2, 1], [2, 0, -3], [-1, 3, 0.0]])
    assert_allclose(weights, np.array([3, 1, 2]) / 6, atol=1e-9)
    assert_allclose(values, 0.0, atol=1e-8)


def test_copies_and_losers_change_no_value():
    copied = ROCK_PAPER_SCISSORS[np.ix_([0, 0, 1, 2], [0, 0, 1, 2])]
    weights, _ = nash_average(copied)
    assert_allclose(weights, [1 / 6, 1 / 6, 1 / 3, 1 / 3], atol=1e-8)
    with_loser = np.zeros((4, 4))
    with_loser[:3, :3] = ROCK_PAPER_SCISSORS
    with_loser[:3, 3], with_loser[3, :3] = 2.0, -2.0
    weights, values = nash_average(with_loser)
    assert_allclose(weights, [1 / 3, 1 / 3, 1 / 3, 0.0], atol=1e-9)
    assert_allclose(values, [0, 0, 0, -2.0], atol=1e-8)


def mixtures_that_met(rng, players):
    """What random mixtures of rock, paper and scissors won of each other in 64 games a pair."""
    chances = rng.dirichlet(np.ones(3), players)
    return chances @ ROCK_PAPER_SCISSORS @ chances.T + rng.normal(size=(players, players)) / 8


@pytest.mark.parametrize(
    "payoffs_of",
    [
        lambda rng, players: rng.normal(size=(players, players)),
        lambda rng, players: rng.integers(-1, 2, (players, players)),
        lambda rng, players: (
            np.subtract.outer(*[rng.normal(size=players)] * 2)
            + rng.normal(size=(players, players)) / 10
        ),
        mixtures_that_met,
    ],
)
def test_the_average_of_any_game_is_beaten_by_nobody(payoffs_of):
    rng = np.random.default_rng(0)
    for players in [*range(2, 13), *[17, 21] * 10]:
        weights, values = nash_average(payoffs_of(rng, players))
        assert weights.sum() == pytest.approx(1.0) and (weights >= 0).all()
        assert values.max() < 1e-7
        assert abs(weights @ values) < 1e-7


def test_an_equilibrium_that_is_hard_to_come_by():
    lead = np.array([[0, 0.96, -0.16], [-0.96, 0, 0.13], [0.16, -0.13, 0]])
    assert_allclose(nash_average(lead).weights, np.array([13, 16, 96]) / 125, atol=1e-8)


def test_what_is_no_payoff_matrix_is_refused():
    with pytest.raises(ValueError, match="square"):
        alpha_rank(np.zeros((2, 3)))
    with pytest.raises(ValueError, match="finite"):
        nash_average([[0.0, np.nan], [0.0, 0.0]])
    with pytest.raises(ValueError, match="above 0"):
        alpha_rank(ROCK_PAPER_SCISSORS, alpha=-1.0)
