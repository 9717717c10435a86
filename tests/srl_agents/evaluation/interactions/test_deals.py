"""Traders and bargainers have the edges that their moves make."""

import numpy as np
import pytest

from srl_agents.evaluation.interactions import interactions
from srl_envs import make
from srl_envs.games.bargaining import POINTS
from tests.srl_agents.evaluation.interactions.known_players import SEEDS, Does, edges, played


@pytest.mark.parametrize(
    "seed", [SEEDS[0], *(pytest.param(seed, marks=pytest.mark.slow) for seed in SEEDS[1:])]
)
def test_traders_deliver_to_each_other_and_a_defaulter_only_takes(seed):
    players = [("honest", "truthful_trader"), ("fair", "truthful_trader"),
               ("cheat", "defaulting_trader")]  # fmt: skip
    games = played("social_trading_v0", players, seed, 18, True, num_agents=3, max_cycles=15)
    found = interactions(games)
    traded, broken = edges(found, "traded"), edges(found, "broken")
    assert traded["honest", "fair"].sure and traded["fair", "honest"].value > 1.0
    for victim in ("honest", "fair"):
        assert traded["cheat", victim].value == 0.0 and not traded["cheat", victim].sure
        assert traded[victim, "cheat"].value > 0.0
        assert broken["cheat", victim].value > 0.0 == broken[victim, "cheat"].value
    assert broken["cheat", "fair"].sure or broken["cheat", "honest"].sure
    helped = edges(found, "influence")
    assert helped["honest", "fair"].sure and helped["honest", "fair"].value > 0.0
    assert helped["cheat", "fair"].value < 0.0


def test_what_all_received_and_gave_is_what_the_market_says_they_gained():
    players = [(name, "truthful_trader") for name in ("a", "b", "c")]
    [game] = played("social_trading_v0", players, 3, 1, num_agents=3, max_cycles=15,
                    agreements="binding")  # fmt: skip
    found = interactions([game])
    received = dict.fromkeys("abc", 0.0)
    for (_, target), edge in edges(found, "traded").items():
        received[target] += edge.value
    agents = list(game.seats)
    env = make("social_trading_v0", num_agents=3, max_cycles=15, agreements="binding")
    env.reset(seed=game.seed)
    gave = dict.fromkeys(agents, 0.0)
    for turn in game.turns:
        before = np.array(env.market.stocks)
        env.step({step.agent: step.decision.action for step in turn})
        lost = np.minimum(np.array(env.market.stocks) - before, 0) * np.array(env.market.values)
        for agent, worth in zip(agents, lost.sum(axis=1), strict=True):
            gave[agent] -= worth
    assert sum(received.values()) > 0 and found.graph("broken") is None
    for agent, name in game.seats.items():
        gained = game.end_of(agent)["gain"]
        assert received[name] - gave[agent] == pytest.approx(gained)


def test_a_deal_pays_both_above_what_no_deal_would():
    players = [("yielding", "conceder"), ("firm", "boulware")]
    games = played("social_negotiation_v0", players, 0, 8)
    traded = edges(interactions(games), "traded")
    assert all(game.end_of("agent_0")["outcome"] == "agreement" for game in games)
    assert traded["firm", "yielding"].sure and traded["yielding", "firm"].sure
    assert traded["yielding", "firm"].value > traded["firm", "yielding"].value
    none = played("social_negotiation_v0", [("a", Does(lambda *_: (0, None)))] * 2, 0, 4)
    assert {edge.value for edge in interactions(none).graph("traded").edges} == {0.0}


def test_a_deal_is_worth_what_it_paid_above_the_reservation():
    players = [("yielding", "conceder"), ("firm", "boulware")]
    games = played("social_negotiation_v0", players, 0, 4, reset={"reservations": [10, 25]})
    traded = edges(interactions(games), "traded")
    paid = {name: np.mean([game.returns()[agent] for game in games])
            for agent, (name, _) in zip(games[0].seats, players, strict=True)}  # fmt: skip
    assert traded["firm", "yielding"].value == pytest.approx(paid["yielding"] - 10 / POINTS)
    assert traded["yielding", "firm"].value == pytest.approx(paid["firm"] - 25 / POINTS)
