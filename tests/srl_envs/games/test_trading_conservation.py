"""Trading as every seat sees it, over random games: goods only move, and rewards are what
they were worth. The rules alone are held to the same by test_trading_market.py."""

from itertools import product

import numpy as np
import pytest

from srl_envs.games.trading import SocialTrading, field_sizes

ROUNDS = 6
ILLEGAL_SHARE = 0.1  # of the actions


def places(env):
    """Where a seat's stock and values stand in its vector."""
    found, start = {}, 0
    for name, size in field_sizes(env.rules, env.network).items():
        found[name] = slice(start, start + size)
        start += size
    return found["own_stock"], found["own_value"]


@pytest.mark.parametrize("games", [1000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_goods_move_and_rewards_are_what_they_are_worth(games):
    rng = np.random.default_rng(0)
    sizes = product((2, 3), (3, 4), (1, 3), ("promised", "binding"))
    markets = [
        SocialTrading(
            num_agents=seats, goods=goods, max_quantity=most, agreements=kind, max_cycles=ROUNDS
        )
        for seats, goods, most, kind in sizes
    ]
    moved = lost = 0
    for game in range(games):
        env = markets[game % len(markets)]
        stock, value = places(env)
        seen, infos = env.reset(seed=game)
        held = np.array([seen[agent][stock] for agent in env.agents])
        values = np.array([seen[agent][value] for agent in env.agents])
        there, earned = held.sum(axis=0), np.zeros(len(held))
        while env.agents:
            draws = rng.random(2 * len(held)).tolist()
            actions = {}
            for agent, daring, die in zip(env.agents, draws[::2], draws[1::2], strict=True):
                legal = infos[agent]["action_mask"].nonzero()[0]
                size = env.rules.num_actions
                free = daring < ILLEGAL_SHARE
                actions[agent] = int(die * size) if free else int(legal[int(die * len(legal))])
            seen, rewards, _, _, infos = env.step(actions)
            now = np.array([seen[agent][stock] for agent in seen])
            paid = np.array([rewards[agent] for agent in seen])
            assert (now.sum(axis=0) == there).all() and now.min() >= 0
            assert (paid == ((now - held) * values).sum(axis=1)).all()
            moved += (now != held).any()
            lost += paid.min() < 0
            held, earned = now, earned + paid
        last = infos["agent_0"]
        assert last["realised_surplus"] == earned.sum() <= last["possible_surplus"]
        assert [infos[agent]["gain"] for agent in infos] == earned.tolist()
    assert moved > games / 10 and lost > games / 20  # goods did move, also to a seat's loss
