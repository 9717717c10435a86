import copy
import json

import pytest

from benchmarks.training.unseen import trading
from srl_agents.rollout import play
from srl_agents.scripted.registry import classic_policy
from srl_envs.games.base import VectorLayout
from srl_envs.games.trading import SocialTrading, field_sizes

OPTIONS = {"num_agents": 2, "max_quantity": 1, "agreements": "binding", "max_cycles": 8}


def traders(name):
    env = SocialTrading(**OPTIONS)
    return dict.fromkeys(env.possible_agents, classic_policy(name, env))


def layout():
    env = SocialTrading(**OPTIONS)
    return VectorLayout(field_sizes(env.rules, env.network))


@pytest.mark.slow
def test_a_run_is_measured(small):
    request = small(games=5, environment__options__max_cycles=4, rollout__group_size=4)
    result = trading.TRADING.measure(request)
    [run] = result.rows
    assert run["episodes"] == 16 and run["not_conserved"] == 0
    assert run["before"]["surplus"].mean <= 1 and run["after"]["surplus"].mean <= 1
    text = trading.TRADING.markdown(result, request)
    assert text.count("\n| trained, seed 3 |") == text.count("\n| truthful_trader |  |") == 1
    json.dumps([run, result.references], allow_nan=False)


def test_truthful_traders_gain_much_and_random_ones_nothing():
    exam = trading.unseen_markets(OPTIONS, 60)
    truthful, uniform = exam.scripted("truthful_trader"), exam.scripted("uniform")
    assert truthful["surplus"].mean > 0.6 and truthful["not_conserved"] == 0
    assert abs(uniform["surplus"].mean) < 0.3 and uniform["not_conserved"] == 0


def test_the_share_is_of_all_markets_together():
    ends = [(6, 10), (0, 0), (-1, 2)]
    episodes = []
    for realised, possible in ends:
        episode = copy.deepcopy(play(SocialTrading(**OPTIONS), traders("uniform"), 0))
        share = realised / possible if possible else None
        episode.turns[-1][0].info.update(
            realised_surplus=realised, possible_surplus=possible, surplus_share=share
        )
        episodes.append(episode)
    found = trading.score(episodes, layout())
    # Residuals 6 - 50/12, 0, -1 - 10/12: equal and opposite, 11/6; sd 11/6, over a mean of 4.
    assert found["surplus"] == pytest.approx((5 / 12, 11 / 6 / 4 / 3**0.5))
    assert found["mean_share"] == pytest.approx((0.6 - 0.5) / 2)


def test_goods_that_appear_or_rewards_that_do_not_add_up_are_noticed():
    env, read = SocialTrading(**OPTIONS), layout()
    episode = play(env, traders("truthful_trader"), 1)
    assert trading.conserved(episode, read)
    place = sum(size for name, size in list(field_sizes(env.rules, env.network).items())[:4])
    more = copy.deepcopy(episode)
    more.turns[2][0].observation[place] += 1
    assert not trading.conserved(more, read)
    richer = copy.deepcopy(episode)
    richer.turns[-1][0].info["realised_surplus"] += 1
    assert not trading.conserved(richer, read)
