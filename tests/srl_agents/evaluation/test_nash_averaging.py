"""Nash averaging on games worked by hand, and its defining inequalities on random games."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from srl_agents.evaluation.nash_averaging import nash_average

ROCK_PAPER_SCISSORS = np.array([[0, -1, 1], [1, 0, -1], [-1, 1, 0.0]])


@pytest.mark.parametrize(
    ("margins", "weights"),
    [
        ([[0, -2, 1], [2, 0, -3], [-1, 3, 0.0]], np.array([3, 1, 2]) / 6),
        ([[0, 0.96, -0.16], [-0.96, 0, 0.13], [0.16, -0.13, 0]], np.array([13, 16, 96]) / 125),
    ],
)
def test_uneven_cycles_by_hand(margins, weights):
    found = nash_average(margins)
    assert_allclose(found.weights, weights, atol=1e-8)
    assert_allclose(found.values, 0.0, atol=1e-8)


def test_copies_and_losers_do_not_change_values():
    copied = ROCK_PAPER_SCISSORS[np.ix_([0, 0, 1, 2], [0, 0, 1, 2])]
    assert_allclose(nash_average(copied).weights, [1 / 6, 1 / 6, 1 / 3, 1 / 3], atol=1e-8)
    with_loser = np.zeros((4, 4))
    with_loser[:3, :3] = ROCK_PAPER_SCISSORS
    with_loser[:3, 3], with_loser[3, :3] = 2.0, -2.0
    weights, values = nash_average(with_loser)
    assert_allclose(weights, [1 / 3, 1 / 3, 1 / 3, 0.0], atol=1e-9)
    assert_allclose(values, [0, 0, 0, -2.0], atol=1e-8)


def mixtures(rng, players):
    """Return noisy payoffs of random mixtures of rock, paper and scissors."""
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
        mixtures,
    ],
)
def test_no_player_beats_the_average(payoffs_of):
    rng = np.random.default_rng(0)
    for players in [*range(2, 13), *[17, 21] * 10]:
        weights, values = nash_average(payoffs_of(rng, players))
        assert weights.sum() == pytest.approx(1.0) and (weights >= 0).all()
        assert values.max() < 1e-7 and abs(weights @ values) < 1e-7


@pytest.mark.parametrize(
    ("payoffs", "reason"),
    [(np.zeros((2, 3)), "square"), ([[0.0, np.nan], [0.0, 0.0]], "finite")],
)
def test_invalid_arrays_are_rejected(payoffs, reason):
    with pytest.raises(ValueError, match=reason):
        nash_average(payoffs)
