"""The games of colours: what each pays for which pick, and when."""

import pytest

from benchmarks.games import COLOURS, HowMuch, When, Whose
from srl_envs.env_checker import check_environment

GAMES = (Whose, When, HowMuch)


def paid(make, picks):
    """Rewards by turn and agent, of the agents' picks by turn."""
    env = make()
    env.reset(seed=0)
    return [list(env.step(dict(zip(env.agents, own, strict=True)))[1].values()) for own in picks]


@pytest.mark.parametrize("make", GAMES)
def test_environment_conforms_to_the_api(make):
    check_environment(make)


@pytest.mark.parametrize("make", GAMES)
def test_no_colour_is_right_more_often_than_another(make):
    agents, totals = len(make.stakes), []
    for colour in range(len(COLOURS)):
        totals.append(sum(map(sum, paid(make, [[colour] * agents] * make.turns))))
    uniform = make().baselines()["uniform"] * agents * make.turns
    assert totals == pytest.approx([uniform] * len(COLOURS))


@pytest.mark.parametrize("make", GAMES)
def test_right_colours_are_the_optimum(make):
    agents = len(make.stakes)
    right = [[(agent + turn) % 4 for agent in range(agents)] for turn in range(make.turns)]
    best = make().baselines()["optimum"] * agents * make.turns
    assert sum(map(sum, paid(make, right))) == pytest.approx(best)


def test_each_agent_has_its_own_colour():
    assert paid(Whose, [[0, 1, 2, 3, 0, 1, 2, 3]]) == [[1] * 8]
    assert paid(Whose, [[0, 0, 3, 3, 3, 0, 0, 1]]) == [[1, 0, 0, 1, 0, 0, 0, 0]]


def test_right_colour_pays_at_the_end_and_the_one_before_it_at_once():
    right = [[turn % 4] for turn in range(8)]
    assert paid(When, right) == [[0]] * 7 + [[8]]
    before = [[(turn - 1) % 4] for turn in range(8)]
    assert paid(When, before) == [[0.5]] * 8
    once = [[1], *before[1:]]  # the other two pay nothing
    assert paid(When, once) == [[0]] + [[0.5]] * 7


def test_half_of_the_agents_have_coins_of_a_hundred():
    assert paid(HowMuch, [[0, 1, 2, 3, 0, 1, 2, 3]]) == [[1] * 4 + [100] * 4]
    assert paid(HowMuch, [[1, 1, 1, 1, 1, 1, 1, 1]]) == [[0, 1, 0, 0, 0, 100, 0, 0]]
