"""Assignment of models to the agents of each group."""

from collections import Counter

import numpy as np
import pytest

from srl_agents.episode import AgentStep, Decision, Episode
from srl_agents.matchmaking import Matchmaking, assign_agents

FIVE = tuple(f"m{number}" for number in range(5))
PAIR = ("row", "column")
FOUR = ("red_0", "red_1", "blue_0", "blue_1")
LETTERS = ("a", "b", "c", "d")


def placed(seatings):
    """(agent, player) -> in how many of the seatings."""
    return Counter(place for seats in seatings for place in seats.items())


def game(returns, seats):
    steps = tuple(AgentStep(a, None, Decision(0), float(r)) for a, r in returns.items())
    return Episode("game", 0, seats, (steps,))


def test_rotation_is_balanced_over_agents():
    made = Matchmaking(FOUR, FIVE[:3], {"red_1": "scripted"}, "rotating")
    counted = placed(made.seatings(range(6)))
    free = [agent for agent in FOUR if agent != "red_1"]
    assert counted == {("red_1", "scripted"): 6, **{(a, m): 2 for a in free for m in FIVE[:3]}}
    assert made.agents_of("m1") == tuple(free) and made.mean_held("m1") == 1


@pytest.mark.parametrize("models", [1, 2, 3, 4, 5, 7])
@pytest.mark.parametrize("agents", [PAIR, FOUR])
def test_round_robin_is_balanced_over_agents(models, agents):
    names = tuple(f"m{number}" for number in range(models))
    made = Matchmaking(agents, names, {}, "round_robin", seed=3)
    for first in (0, models, 5 * models):
        counted = placed(made.seatings(range(first, first + models)))
        assert counted == {(agent, name): 1 for agent in agents for name in names}
    for seats in made.seatings(range(3 * models)):
        times = Counter(seats.values())
        assert max(times.values()) <= -(-len(agents) // models), "nobody plays against itself"


@pytest.mark.parametrize("agents", [PAIR, FOUR])
def test_round_robin_is_balanced_over_pairs(agents):
    made = Matchmaking(agents, FIVE, {}, "round_robin", seed=1)
    whole = made.seatings(range(20, 40))
    for other in agents[1:]:
        met = Counter((seats[agents[0]], seats[other]) for seats in whole)
        assert met == {(one, two): 1 for one in FIVE for two in FIVE if one != two}


def test_uniform_draws_are_uniform_over_models_and_agents():
    made = Matchmaking(PAIR, FIVE, {}, "uniform", seed=0)
    drawn = made.seatings(range(2_000))
    assert all(len(set(seats.values())) == 2 for seats in drawn)
    expected = 2_000 / 20  # of each ordered pair
    counts = Counter(tuple(seats.values()) for seats in drawn)
    spread = sum((n - expected) ** 2 / expected for n in counts.values())
    assert len(counts) == 20 and spread < 43.8, "chi-square with 19 degrees of freedom, .001"
    few = Matchmaking(FOUR, FIVE[:3], {}, "uniform").seatings(range(300))
    assert all(sorted(Counter(seats.values()).values()) == [1, 1, 2] for seats in few)


def test_models_in_seats_keep_their_agents_and_are_not_drawn():
    made = Matchmaking(PAIR, FIVE, {"row": "m0"}, "round_robin")
    assert placed(made.seatings(range(4))) == {
        ("row", "m0"): 4, **{("column", name): 1 for name in FIVE[1:]}
    }  # fmt: skip
    assert made.agents_of("m0") == ("row",) and made.agents_of("m1") == ("column",)
    assert (made.mean_held("m0"), made.mean_held("m1"), made.most_held("m1")) == (1, 0.25, 1)


@pytest.mark.parametrize(
    "models, seats, name, says",
    [
        (FIVE, {"up": "m0"}, "uniform", "agents must be among .*'up'"),
        (FIVE, dict.fromkeys(FOUR, "m0"), "uniform", "needs an agent without a player"),
        ((), {"red_0": "m0"}, "uniform", "models must name at least one"),
        (FIVE, {}, "random", "rotating, .*'random'"),
    ],
)
def test_impossible_draws_are_rejected(models, seats, name, says):
    with pytest.raises(ValueError, match=says):
        Matchmaking(FOUR, models, seats, name)


def test_mean_held_equals_the_mean_of_draws():
    for name, models in (("uniform", FIVE), ("round_robin", FIVE[:3])):
        made = Matchmaking(FOUR, models, {}, name)
        seatings = made.seatings(range(600))
        for model in models:
            held = [list(seats.values()).count(model) for seats in seatings]
            assert np.mean(held) == pytest.approx(made.mean_held(model), abs=0.06)
            assert max(held) <= made.most_held(model)


@pytest.mark.parametrize(
    "seats, models, fixed, dealt",
    [
        (LETTERS, ["m0", "m1", "m2", "m3"], {}, "m0 m1 m2 m3"),
        (LETTERS, ["m0"], {}, "m0 m0 m0 m0"),
        (LETTERS, ["m0", "m1"], {}, "m0 m1 m0 m1"),
        (LETTERS, ["m0", "m1"], {"a": "m1"}, "m1 m0 m1 m0"),
        (LETTERS, ["m0", "m1"], {"b": "tit_for_tat"}, "m0 tit_for_tat m1 m0"),
        (LETTERS, ["m0"], {"b": "x", "c": "x", "d": "x"}, "m0 x x x"),
        (LETTERS, ["m0", "m1"], {"a": "m0", "b": "m1"}, "m0 m1 m0 m1"),
        (LETTERS, ["m0", "m1", "m2"], {"a": "m0", "d": "x"}, "m0 m1 m2 x"),
        (LETTERS, ["m0"], dict.fromkeys(LETTERS, "m0"), "m0 m0 m0 m0"),
    ],
)
def test_assign_agents(seats, models, fixed, dealt):
    found = assign_agents(seats, models, fixed)
    assert list(found) == list(seats)
    assert " ".join(found.values()) == dealt


@pytest.mark.parametrize(
    "models, fixed, says",
    [
        (["m0"], {"z": "m0"}, "agents must be among a, b, c, d, got 'z'"),
        ([f"m{i}" for i in range(5)], {}, "m4 does not: 4 free agent"),
        (["m0", "m1"], {"a": "x", "b": "x", "c": "x"}, "m1 does not: 1 free agent"),
        (["m0", "m1"], dict.fromkeys(LETTERS, "m1"), "m0 does not: 0 free agent"),
        ((), {"a": "x"}, "models must name at least one"),
    ],
)
def test_impossible_fixed_assignments_are_rejected(models, fixed, says):
    with pytest.raises(ValueError, match=says):
        assign_agents(LETTERS, models, fixed)
