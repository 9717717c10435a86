import numpy as np
import pytest

from srl_envs.games.negotiation import rendering as negotiation_rendering
from srl_envs.games.negotiation.env import parallel_env
from srl_envs.games.rendering import COLOURS, PAPER

POINTS = [[[0, 60], [40, 0]], [[50, 0], [0, 50]]]


def bargain(**options):
    env = parallel_env(
        issues={"price": ["low", "high"], "date": ["early", "late"]},
        render_mode="rgb_array",
        max_cycles=3,
        **options,
    )
    options = {"points": POINTS, "reservations": [10, 10]}
    if env.rules.offers == "alternating":
        options["first"] = 0
    env.reset(seed=0, options=options)
    return env


def say(env, agent_0, agent_1):
    words = {"agent_0": agent_0, "agent_1": agent_1}
    env.step({agent: env.text_view.parse(agent, said) for agent, said in words.items()})
    return env.render()


def coloured(frame, colour):
    return (frame == np.array(colour, dtype=np.uint8)).all(axis=2)


def amount(frame, colour):
    return int(coloured(frame, colour).sum())


def test_a_proposal_is_filled_while_it_stands_and_framed_afterwards():
    env = bargain()
    start = env.render()
    assert start.dtype == np.uint8 and start.shape[2] == 3
    first = say(env, "propose price=high date=early", "pass")
    filled = amount(first, COLOURS[0]) - amount(start, COLOURS[0])
    assert filled > 1000  # two options of two issues
    second = say(env, "pass", "propose price=low date=late")
    framed = amount(second, COLOURS[0]) - amount(start, COLOURS[0])
    assert 100 < framed < filled / 2
    assert amount(second, COLOURS[1]) - amount(first, COLOURS[1]) > 1000
    assert first.shape == second.shape == start.shape


def test_a_deal_is_marked():
    env = bargain()
    proposed = say(env, "propose price=high date=early", "pass")
    assert amount(proposed, negotiation_rendering.AGREED) == 0
    agreed = say(env, "pass", "accept")
    assert amount(agreed, negotiation_rendering.AGREED) > 1000
    assert agreed.shape == proposed.shape


@pytest.mark.parametrize("last", ["walk away", "pass"])
def test_an_end_without_a_deal_is_told(last):
    env = bargain(offers="simultaneous")
    begun = say(env, "pass", "pass")
    frame = begun
    while env.agents:
        frame = say(env, last, "pass")
    places = np.argwhere(coloured(frame, negotiation_rendering.ENDED))
    beside_the_bar = places[(places[:, 0] < 40) & (places[:, 1] > 300)]
    assert len(beside_the_bar) > 40  # of the words, whose edges are paler
    assert not (coloured(begun, negotiation_rendering.ENDED)[:40, 300:]).any()


def test_the_bar_grows_towards_the_deadline():
    env = bargain()
    lengths = []
    for _ in range(3):
        frame = say(env, "pass", "pass")
        lengths.append(amount(frame[32:42, 8:308], negotiation_rendering.QUIET) // 10)
    assert lengths == [100, 200, 300]


@pytest.mark.parametrize(
    "options",
    [
        {"num_agents": 6},
        {"issues": {"x": [f"o{n}" for n in range(40)]}},
        {"issues": {f"issue{n}": ["a", "b"] for n in range(9)}},
    ],
)
def test_every_negotiation_fits(options):
    env = parallel_env(render_mode="rgb_array", **options)
    env.reset(seed=1)
    frame = env.render()
    border = np.concatenate([frame[0], frame[-1], frame[:, -1], frame[:, 0]])
    assert (border == np.array(PAPER)).all()
