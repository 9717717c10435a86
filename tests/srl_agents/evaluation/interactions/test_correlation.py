"""Rewards of games that cannot be played again are correlated, and called so."""

from dataclasses import replace

import numpy as np
import pytest

from srl_agents.evaluation.interactions import interactions
from srl_agents.evaluation.interactions.correlation import reward_correlations
from tests.srl_agents.evaluation.interactions.known_players import SEEDS, Does, played, unknown


@pytest.mark.parametrize("seed", SEEDS)
def test_games_that_cannot_be_played_again_give_a_correlation_that_is_called_so(seed):
    def at_random(seen, rng):
        return int(rng.random() < 0.5), None

    players = [("one", Does(at_random)), ("other", Does(at_random))]
    games = unknown(played("coop_compete_pair_v0", players, seed, 10, max_cycles=20, noise_std=0.0))
    found = interactions(games)
    assert found.graph("influence") is None
    assert "does not say how" in found.not_replayed[0]
    graph = found.graph("correlation")
    assert graph.measure.title == "Whose rewards went together" and not graph.measure.directed
    [edge] = graph.edges
    assert edge.value == pytest.approx(1.0) and edge.sure  # a pair earns the same
    assert graph.edge("other", "one") is graph.edge("one", "other") is edge


def test_one_game_that_cannot_be_played_again_makes_all_of_them_a_correlation():
    games = played("coop_compete_v0", [("a", "uniform"), ("b", "uniform")], num_agents=2,
                   max_cycles=4)  # fmt: skip
    found = interactions([*games[1:], *unknown(games[:1])])
    assert found.graph("influence") is None and found.graph("correlation").edges[0].games == 6


def test_who_always_earns_the_same_has_no_correlation():
    games = played("coop_compete_v0", [("a", "always_cooperate"), ("b", "always_cooperate")],
                   num_agents=2, noise_std=0.0, max_cycles=4)  # fmt: skip
    assert interactions(unknown(games)).graphs == ()


def test_rewards_that_are_no_numbers_count_nowhere():
    [first, *rest] = unknown(played("bandit_v0", [("a", "uniform"), ("b", "uniform")],
                                    num_agents=2, max_cycles=8))  # fmt: skip
    rewards = [float("nan"), float("inf"), 1e300, *[0.5] * 5]
    turns = [
        tuple(replace(step, reward=reward) for step in turn)
        for turn, reward in zip(first.turns, rewards, strict=True)
    ]
    found = interactions([replace(first, turns=tuple(turns)), *rest])
    assert np.isfinite(found.graph("correlation").edges[0].value)


def test_the_correlation_is_pearsons_of_what_is_left_of_each_agents_mean():
    rng = np.random.default_rng(3)
    rewards = [rng.normal([[0.0], [5.0]], size=(2, 7)) for _ in range(4)]
    rewards = [np.stack([x, y - 0.6 * x + number]) for number, (x, y) in enumerate(rewards)]
    games = [{"p": dict(enumerate(x)), "q": dict(enumerate(y))} for x, y in rewards]
    named = [{"p": "one", "q": "other"}] * 2 + [{"p": "one", "q": "third"}] * 2
    got = {(e.source, e.target): e.value for e in reward_correlations(games, named, 0)}
    assert got["one", "other"] == pytest.approx(np.corrcoef(np.hstack(rewards[:2]))[0, 1])
    assert got["one", "third"] == pytest.approx(np.corrcoef(np.hstack(rewards[2:]))[0, 1])
