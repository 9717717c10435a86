"""Counterfactuals say who helped and hurt whom, as the payoffs do."""

import threading
from typing import ClassVar

import numpy as np
import pytest
from gymnasium.spaces import Discrete

from srl_agents.evaluation.interactions import interactions
from srl_agents.evaluation.interactions.influence import effects
from srl_agents.rollout import play
from srl_envs.errors import EnvError
from srl_envs.games.team_battle import TeamBattleRules
from tests.srl_agents.evaluation.interactions.known_players import SEEDS, Does, deaf, edges, played


@pytest.mark.parametrize("seed", SEEDS)
def test_a_cooperator_helps_cooperators_and_a_bully_hurts_them_whatever_their_places(seed):
    players = [("giver", "always_cooperate"), ("friend", "always_cooperate"),
               ("bully", "always_compete")]  # fmt: skip
    games = played("coop_compete_v0", players, seed, 8, True, num_agents=3, max_cycles=4)
    got = edges(interactions(games), "influence")
    # Each of two others: .25 * .6 / 2 for cooperating with a cooperator, and .25 * .4 / 2 that a
    # competitor loses by it; noise is the same in both worlds.
    assert got["giver", "friend"].value == pytest.approx(0.075)
    assert got["giver", "bully"].value == pytest.approx(-0.05)
    assert got["bully", "friend"].value == pytest.approx(-0.075)
    assert all(edge.sure and edge.games == 8 for edge in got.values())


@pytest.mark.parametrize("seed", SEEDS)
def test_in_a_battle_of_teams_effects_are_those_of_the_payoffs(seed):
    players = [("loyal", "always_cooperate"), ("raider", "always_compete"),
               ("rival", "always_compete"), ("soft", "always_cooperate")]  # fmt: skip
    games = played(
        "team_battle_v0", players, seed, 9, team_size=2, max_cycles=4, reset={"episode": 50}
    )
    got = edges(interactions(games), "influence")
    rules, actions = TeamBattleRules((2, 2)), [1, 0, 0, 1]
    names = [name for name, _ in players]
    now = rules.expected_rewards(actions)
    for place, name in enumerate(names):
        other = rules.expected_rewards([1 - a if p == place else a for p, a in enumerate(actions)])
        for target, value, instead in zip(names, now, other, strict=True):
            if target != name:
                edge = got[name, target]
                assert edge.value == pytest.approx(value - instead, abs=1e-9)
                assert edge.sure is (abs(value - instead) > 1e-9)


@pytest.mark.parametrize("seed", SEEDS)
def test_who_cannot_reach_each_other_has_no_edge_that_is_sure(seed):
    players = [(name, "uniform") for name in ("a", "b", "c")]
    found = interactions(played("bandit_v0", players, seed, num_agents=3, max_cycles=6))
    assert [graph.measure.name for graph in found.graphs] == ["influence"]
    for edge in found.graphs[0].edges:
        assert (edge.value, edge.interval, edge.sure) == (0.0, (0.0, 0.0), False)


def test_copies_of_one_model_have_an_edge_to_themselves():
    games = played("coop_compete_v0", [("copy", "always_cooperate")] * 4, max_cycles=3)
    [edge] = interactions(games).graph("influence").edges
    assert (edge.source, edge.target, edge.value) == ("copy", "copy", pytest.approx(0.05))


class Pays:
    """Two agents of four actions, paid a tenth whatever they do."""

    metadata: ClassVar = {"name": "pays"}
    possible_agents: ClassVar = ["a", "b"]
    unwrapped = None

    def action_space(self, agent):
        return Discrete(4)

    def reset(self, seed=None, options=None):
        self.agents, self.left = list(self.possible_agents), 3
        return dict.fromkeys(self.agents, 0), {agent: {} for agent in self.agents}

    def step(self, actions):
        self.left -= 1
        agents = self.agents
        self.agents = agents if self.left else []
        over = dict.fromkeys(agents, not self.left)
        paid = dict.fromkeys(agents, 0.1)
        return dict.fromkeys(agents, 0), paid, over, dict.fromkeys(agents, False), {
            agent: {} for agent in agents
        }  # fmt: skip


def test_the_last_digits_of_a_mean_are_no_effect():
    env = Pays()
    episode = play(env, dict.fromkeys("ab", Does(deaf)), 0)
    assert (0.1 + 0.1 + 0.1) / 3 != 0.1  # what three other actions would have paid
    assert effects(episode, env, np.random.default_rng(0)) == {("a", "b"): 0.0, ("b", "a"): 0.0}


def test_an_environment_that_cannot_be_copied_is_told():
    env = Pays()
    episode = play(env, dict.fromkeys("ab", Does(deaf)), 0)
    env.connection = threading.Lock()
    with pytest.raises(EnvError, match=r"pays cannot be copied: .*lock"):
        effects(episode, env, np.random.default_rng(0))
