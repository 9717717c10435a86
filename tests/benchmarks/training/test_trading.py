import copy
import json

import pytest

from benchmarks.training import trading
from srl_agents.rollout import play
from srl_agents.scripted.observation_layout import VectorLayout
from srl_agents.scripted.registry import classic_policy
from srl_envs.games.trading.env import SocialTrading
from srl_envs.games.trading.view import field_sizes

OPTIONS = {"num_agents": 2, "max_quantity": 1, "agreements": "binding", "max_cycles": 8}


@pytest.fixture(scope="module")
def result(tiny_folder, tmp_path_factory):
    overrides = {
        "environment.options.max_cycles": 4,
        "models.base": tiny_folder,
        "rollout.group_size": 4,
        "rollout.groups_per_round": 1,
        "logging.evaluation_episodes": 0,
        "rounds": 1,
    }
    return trading.measure([3], tmp_path_factory.mktemp("trading"), 5, overrides=overrides)


def test_a_run_is_measured(result):
    [run] = result["runs"]
    assert run["episodes"] == 4
    for when in ("before", "after"):
        assert run[when]["share"] <= 1 and run[when]["goods_moved_only"] == 5
    assert trading.markdown(result).count("\n| trained, seed 3 |") == 1
    json.dumps(result, allow_nan=False)


def traders(name):
    env = SocialTrading(**OPTIONS)
    return dict.fromkeys(env.possible_agents, classic_policy(name, env))


def test_truthful_traders_gain_much_and_random_ones_nothing():
    truthful = trading.dealt(OPTIONS, traders("truthful_trader"), 60)
    assert truthful["share"] > 0.6 and truthful["goods_moved_only"] == 60
    uniform = trading.dealt(OPTIONS, traders("uniform"), 60)
    assert abs(uniform["share"]) < 0.3 and uniform["goods_moved_only"] == 60


def test_the_share_is_of_all_markets_together(monkeypatch):
    ends = [(6, 10), (0, 0), (-1, 2)]
    episodes = []
    for realised, possible in ends:
        episode = copy.deepcopy(play(SocialTrading(**OPTIONS), traders("uniform"), 0))
        share = realised / possible if possible else None
        episode.turns[-1][0].info.update(
            realised_surplus=realised, possible_surplus=possible, surplus_share=share
        )
        episodes.append(episode)
    monkeypatch.setattr(trading, "all_played", lambda *_: episodes)
    found = trading.dealt(OPTIONS, {}, 3)
    assert found["share"] == pytest.approx(5 / 12)
    assert found["mean_share"] == pytest.approx((0.6 - 0.5) / 2)
    # Residuals 6 - 50/12, 0, -1 - 10/12: equal and opposite, 11/6; sd 11/6, over a mean of 4.
    assert found["standard_error"] == pytest.approx(11 / 6 / 4 / 3**0.5)


def test_goods_that_appear_or_rewards_that_do_not_add_up_are_noticed():
    env = SocialTrading(**OPTIONS)
    read = VectorLayout(field_sizes(env.rules, env.network))
    episode = play(env, traders("truthful_trader"), 1)
    assert trading.conserved(episode, read)
    place = sum(size for name, size in list(field_sizes(env.rules, env.network).items())[:4])
    more = copy.deepcopy(episode)
    more.turns[2][0].observation[place] += 1
    assert not trading.conserved(more, read)
    richer = copy.deepcopy(episode)
    richer.turns[-1][0].info["realised_surplus"] += 1
    assert not trading.conserved(richer, read)


def test_targets_can_be_missed():
    fine = {"goods_moved_only": 9}
    good = {"before": fine, "after": {**fine, "share": 0.7}, "wall_seconds": 599.0}
    bad = {"before": fine, "after": {"share": 0.69, "goods_moved_only": 8}, "wall_seconds": 601.0}

    def held(*runs):
        return [check.held for check in trading.checks({"runs": runs, "game": {"markets": 9}})]

    assert held(good) == [True] * 3
    assert held(good, bad) == [False] * 3
