"""PettingZoo's own tests, for every registered environment."""

from functools import partial

import pettingzoo
import pytest
from gymnasium.utils.env_checker import data_equivalence
from pettingzoo.test import (
    api_test,
    parallel_api_test,
    parallel_seed_test,
    seed_test,
    state_test,
)

from srl_envs import registry
from tests.srl_envs.kinds import KINDS, writes

ROUNDS = 30
TURN_BASED_ROUNDS = 10  # debates grow, and every seat is shown all of them at every turn

# Observations with masks are dicts by design; PettingZoo's AEC test warns about them.
DICTS_ARE_WANTED = (
    pytest.mark.filterwarnings("ignore:Observation is not a NumPy array:UserWarning"),
    pytest.mark.filterwarnings("ignore:Observation space for each agent probably:UserWarning"),
)
# Whatever is written is a move: PettingZoo's AEC test expects numbers, and remarks on it.
TEXTS_ARE_WANTED = pytest.mark.filterwarnings("ignore:Action space for each agent:UserWarning")
every_mode = pytest.mark.parametrize(
    ("name", "mode"),
    [
        *((name, "vector") for name in registry.names()),
        pytest.param("team_battle_v0", "dict", marks=DICTS_ARE_WANTED),
        pytest.param("social_trading_v0", "llm", marks=DICTS_ARE_WANTED),
        pytest.param("math_v0", "llm", marks=DICTS_ARE_WANTED),
    ],
)
every_kind = pytest.mark.parametrize("name", KINDS)


def turn_based(name, **parameters):
    return registry.as_module(name).env(**parameters)


@every_mode
def test_parallel_api(name, mode):
    parallel_api_test(registry.make(name, obs_mode=mode), num_cycles=ROUNDS)


@every_kind
def test_parallel_seeds(name):
    parallel_seed_test(partial(registry.make, name), num_cycles=ROUNDS)


@every_mode
@TEXTS_ARE_WANTED
def test_turn_based_api(name, mode):
    rounds = TURN_BASED_ROUNDS
    api_test(turn_based(name, obs_mode=mode, max_cycles=rounds), num_cycles=rounds)


@every_kind
def test_turn_based_seeds(name):
    seed_test(partial(turn_based, name), num_cycles=TURN_BASED_ROUNDS)


# PettingZoo's max_cycles_test demands that sampled episodes last exactly max_cycles = 4 steps. By
# their rules, two games may end earlier, and are then terminated: negotiations that are settled or
# left, and debates with fewer rounds (debate_rounds=2). With the samples below, none of them does.


@pytest.mark.parametrize(
    ("name", "parameters", "action"),
    [
        ("social_negotiation_v0", {"offers": "simultaneous"}, None),
        ("debate_v0", {"debate_rounds": 2}, "I doubt it."),
    ],
)
def test_an_episode_that_ends_before_max_cycles_is_terminated(name, parameters, action):
    env = registry.make(name, max_cycles=4, **parameters)
    env.reset(seed=0)
    if action is None:
        action = env.text_view.answers(env.agents[0]).index("walk away")
    steps = 0
    while env.agents:
        _, _, terminations, truncations, _ = env.step(dict.fromkeys(env.agents, action))
        steps += 1
    assert steps < 4 and all(terminations.values()) and not any(truncations.values())


@every_kind
def test_state(name):
    state_test(turn_based(name), registry.make(name), num_cycles=ROUNDS)


@pytest.mark.parametrize(("name", "kind"), [("maze_race_v0", "parallel"), ("math_v0", "aec")])
def test_pettingzoo_makes_environments_by_name(name, kind):
    game, version = name.rsplit("_", 1)
    env = pettingzoo.make(kind, f"srl/{game}-{version}", max_cycles=5)
    assert env.unwrapped.max_cycles == 5
    assert env.possible_agents == registry.make(name).possible_agents


@every_kind
def test_turn_based_and_parallel_play_the_same_game(name):
    parallel, turns = registry.make(name, max_cycles=5), turn_based(name, max_cycles=5)
    parallel.reset(seed=3)
    turns.reset(seed=3)
    while parallel.agents:
        seats = list(parallel.agents)
        moves = ["Answer: 1", "I doubt it."] if writes(name) else [0, 1]
        observations, rewards, *_ = parallel.step({a: moves[i % 2] for i, a in enumerate(seats)})
        for place, _ in enumerate(seats):
            turns.step(moves[place % 2])
        assert {a: turns.rewards[a] for a in seats} == rewards
        assert all(data_equivalence(turns.observe(a), observations[a]) for a in seats)
