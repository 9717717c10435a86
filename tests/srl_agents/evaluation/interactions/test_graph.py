"""False-positive rates of edges, by simulation of games without any effect."""

import numpy as np
import pytest

from srl_agents.evaluation.interactions import Observed, graphs
from srl_agents.evaluation.interactions.correlation import reward_correlations
from srl_agents.evaluation.interactions.graph import mean_edges
from srl_agents.evaluation.interactions.listening import Heard

TRIALS = 300
MOST = 0.07 * TRIALS
EFFECTS = {
    "normal": lambda rng, shape: rng.normal(size=shape),
    "heavy tails": lambda rng, shape: rng.standard_t(3, size=shape),
    "won or lost": lambda rng, shape: rng.choice([-1.0, 1.0], size=shape),
    "won, drawn or lost": lambda rng, shape: rng.choice([-1.0, 0.0, 1.0], size=shape),
}


@pytest.mark.parametrize("games", [6, 12, 50])
@pytest.mark.parametrize("edges", [1, 6])
@pytest.mark.parametrize("effect", EFFECTS)
def test_graphs_without_an_effect_rarely_have_an_edge_that_is_sure(effect, edges, games):
    rng = np.random.default_rng([games, edges])
    values = EFFECTS[effect](rng, (TRIALS, edges, games))
    wrong = 0
    for trial in values:
        found = [
            (game, ("a", str(edge)), value)
            for edge, own in enumerate(trial.tolist())
            for game, value in enumerate(own)
        ]
        wrong += any(edge.sure for edge in mean_edges(found, 0))
    assert wrong <= MOST


@pytest.mark.parametrize(("games", "turns"), [(6, 4), (12, 1), (12, 4), (50, 1)])
def test_rewards_without_a_correlation_rarely_have_one_that_is_sure(turns, games):
    rng = np.random.default_rng([games, turns])
    wrong = 0
    for trial in rng.choice([0.0, 1.0, 2.0], size=(TRIALS, games, 2, turns)):
        rewards = [{"a": dict(enumerate(a)), "b": dict(enumerate(b))} for a, b in trial.tolist()]
        found = reward_correlations(rewards, [{"a": "a", "b": "b"}] * games, 0)
        wrong += any(edge.sure for edge in found)
    assert wrong <= MOST


@pytest.mark.parametrize("games", [6, 12])
def test_words_without_a_meaning_are_rarely_listened_to_for_sure(games):
    rng = np.random.default_rng(games)
    trials, wrong = 60, 0
    for _ in range(trials):
        drawn = rng.integers(2, size=(games, 3, 8, 2)).tolist()
        observed = [
            Observed(
                {agent: agent for agent in "abcs"},
                rewards={},
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
            for one in drawn
        ]
        wrong += any(edge.sure for edge in graphs(observed).graph("listened").edges)
    assert wrong <= 0.07 * trials


def test_effects_of_some_size_are_found():
    rng = np.random.default_rng(0)
    for games, size in ((12, 2.0), (50, 0.8)):
        found = [
            (game, ("a", str(edge)), float(value))
            for edge in range(6)
            for game, value in enumerate(rng.normal(size, size=games))
        ]
        for edge in mean_edges(found, 0):
            assert edge.sure and edge.interval[0] < size < edge.interval[1]
