"""Edges of graphs: false-positive rates by simulation, power, and correlations by hand."""

import numpy as np
import pytest

from srl_agents.evaluation.interaction_graphs import mean_edges
from srl_agents.evaluation.interactions import Heard, Observed, graphs

TRIALS = 300
MOST = 0.07 * TRIALS
EFFECTS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "heavy tails": lambda rng, shape: rng.standard_t(3, size=shape),
    "won or lost": lambda rng, shape: rng.choice([-1.0, 1.0], size=shape),
    "won, drawn or lost": lambda rng, shape: rng.choice([-1.0, 0.0, 1.0], size=shape),
}


def values(edges):
    """(game, pair, value) of an array (edge, game)."""
    return [
        (game, ("a", str(edge)), float(value))
        for edge, own in enumerate(edges)
        for game, value in enumerate(own)
    ]


@pytest.mark.parametrize("games", [6, 12, 50])
@pytest.mark.parametrize("edges", [1, 6])
@pytest.mark.parametrize("effect", EFFECTS)
def test_graphs_without_an_effect_rarely_have_a_sure_edge(effect, edges, games):
    rng = np.random.default_rng([games, edges])
    trials = EFFECTS[effect](rng, (TRIALS, edges, games))
    wrong = sum(any(edge.sure for edge in mean_edges(values(trial), 0)) for trial in trials)
    assert wrong <= MOST


@pytest.mark.parametrize("games", [6, 12])
def test_random_words_are_rarely_listened_to(games):
    rng = np.random.default_rng(games)
    trials, wrong = 60, 0
    for _ in range(trials):
        observed = [
            Observed(
                {agent: agent for agent in "abcs"},
                heard={
                    ("s", hearer): tuple(
                        Heard(turn, f"word {word}", action)
                        for turn, (word, action) in enumerate(turns)
                    )
                    for hearer, turns in zip("abc", one, strict=True)
                },
                effects=None,
                deals=None,
                not_replayed=None,
            )
            for one in rng.integers(2, size=(games, 3, 8, 2)).tolist()
        ]
        wrong += any(edge.sure for edge in graphs(observed).graph("listened").edges)
    assert wrong <= 0.07 * trials


@pytest.mark.parametrize(("games", "size"), [(12, 2.0), (50, 0.8)])
def test_large_effects_are_found(games, size):
    for edge in mean_edges(values(np.random.default_rng(0).normal(size, size=(6, games))), 0):
        assert edge.sure and edge.interval[0] < size < edge.interval[1]
