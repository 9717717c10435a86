import numpy as np
import pytest

from srl_envs.games.trading import market as market_rules
from srl_envs.games.trading import rendering as trading_rendering
from srl_envs.games.trading.env import parallel_env

VALUES, STOCKS = [[3, 9, 1], [3, 1, 9], [3, 1, 1]], [[8, 0, 2], [8, 2, 0], [8, 0, 0]]


def market(**options):
    env = parallel_env(num_agents=3, render_mode="rgb_array", **options)
    env.reset(seed=0, options={"values": VALUES, "stocks": STOCKS})
    return env


def say(env, **answers):
    """The frame after the seats said this; who is not named passes."""
    said = {agent: answers.get(agent, "pass") for agent in env.possible_agents}
    env.step({agent: env.text_view.parse(agent, words) for agent, words in said.items()})
    return env.render()


def amounts(frame):
    """How many pixels there are of what the lines mean."""
    colours = {
        "offered": trading_rendering.OFFERED,
        "accepted": trading_rendering.AGREED,
        "declined": trading_rendering.REFUSED,
        "kept": trading_rendering.KEPT,
        "broken": trading_rendering.BROKEN,
        "deals": trading_rendering.DEALT,
    }
    return {
        name: int((frame == np.array(colour, np.uint8)).all(axis=2).sum())
        for name, colour in colours.items()
    }


def drawn(frame, start):
    """What lines there are, beyond what every frame has (the key, the traders' own colours)."""
    before = amounts(start)
    return {name for name, amount in amounts(frame).items() if amount > before[name] + 100}


def test_a_deal_from_offer_to_delivery():
    env = market()
    start = env.render()
    assert start.dtype == np.uint8 and start.shape[2] == 3 and drawn(start, start) == set()
    offered = say(env, agent_0="offer 2 bread for 2 apple to agent_1")
    assert drawn(offered, start) == {"offered"}
    agreed = say(env, agent_1="accept agent_0")
    assert drawn(agreed, start) == {"accepted"}
    delivered = say(env, agent_0="deliver", agent_1="deliver")
    assert drawn(delivered, start) == {"kept", "deals"}
    assert {frame.shape for frame in (offered, agreed, delivered)} == {start.shape}


def test_a_broken_word_is_drawn_in_its_colour():
    env = market()
    start = env.render()
    say(env, agent_0="offer 2 bread for 2 apple to agent_1")
    say(env, agent_1="accept agent_0")
    assert drawn(say(env, agent_0="deliver"), start) == {"kept", "broken"}


def test_what_was_declined_fades():
    env = market()
    start = env.render()
    say(env, agent_0="offer 2 bread for 2 apple to agent_1")
    assert drawn(say(env, agent_1="decline"), start) == {"declined"}


def test_binding_agreements_are_delivered_at_once():
    env = market(agreements="binding")
    start = env.render()
    say(env, agent_0="offer 2 bread for 2 apple to agent_1")
    assert {"kept", "deals"} <= drawn(say(env, agent_1="accept agent_0"), start)


def test_goods_are_stacked_unit_by_unit():
    env = market()
    start = env.render()
    apple = np.array(trading_rendering.GOODS_COLOURS[1], np.uint8)
    say(env, agent_0="offer 1 coin for 1 apple to agent_1")
    say(env, agent_1="accept agent_0")
    after = say(env, agent_0="deliver", agent_1="deliver")
    columns = [np.flatnonzero((frame == apple).all(axis=2).any(axis=0)) for frame in (start, after)]
    assert set(columns[0]) < set(columns[1])  # agent_0 has one now, where it had no bar


@pytest.mark.parametrize("options", [{"num_agents": 2}, {"num_agents": 10, "goods": 8}])
def test_markets_of_every_size_fit_and_keep_their_size(options):
    env = parallel_env(render_mode="rgb_array", max_cycles=12, max_quantity=5, **options)
    _, infos = env.reset(seed=1)
    shapes, generator = {env.render().shape}, np.random.default_rng(0)
    while env.agents:
        legal = {agent: np.flatnonzero(infos[agent]["action_mask"]) for agent in env.agents}
        *_, infos = env.step({agent: int(generator.choice(acts)) for agent, acts in legal.items()})
        shapes.add(env.render().shape)
    assert len(shapes) == 1
    frame = env.render()
    border = np.concatenate([frame[-1], frame[:, -1], frame[:, 0]])
    assert (border == frame[0, 0]).all()  # nothing is cut off


def test_a_picture_is_a_pure_function_of_the_game():
    env = market()
    say(env, agent_0="offer 2 bread for 2 apple to agent_1")
    stocks = [stock.copy() for stock in env.market.stocks]
    assert np.array_equal(env.render(), env.render())
    assert env.market.stocks == stocks and env.market.phase == market_rules.ANSWERS
