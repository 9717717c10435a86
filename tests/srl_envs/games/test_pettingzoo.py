"""PettingZoo's own tests, for every registered environment with four sets of options."""

from functools import partial
from types import SimpleNamespace

import pettingzoo
import pytest
from gymnasium.utils.env_checker import data_equivalence
from pettingzoo.test import (
    api_test,
    max_cycles_test,
    parallel_api_test,
    parallel_seed_test,
    render_test,
    seed_test,
    state_test,
)

from srl_envs import registry
from tests.srl_envs.kinds import KINDS, writes

pytestmark = [
    # Observations with masks are dicts by design; PettingZoo's AEC test warns about them.
    pytest.mark.filterwarnings("ignore:Observation is not a NumPy array:UserWarning"),
    pytest.mark.filterwarnings("ignore:Observation space for each agent probably:UserWarning"),
    # The actions of tasks are texts; PettingZoo's AEC test expects numbers.
    pytest.mark.filterwarnings("ignore:Action space for each agent:UserWarning"),
]
ROUNDS = 10
PAIRS = {name: {"name": f"coop_compete_pair_{name}"} for name in ("v0", "v1")}
OTHER = {
    "coop_compete_pair": {"noise_std": 0.0},
    "team_battle": {"team_size": (1, 2)},
    "debate": {"scoring": "quality"},
    "multitask": {"environments": PAIRS},
}
"""Options of one set, by name without the version; for other names num_agents=3."""
MORE = {
    "coop_compete_v0": {"num_agents": 5, "turnover": 1, "talk": 1},
    "coop_compete_v1": {"num_agents": 5, "turnover": 1},
    "team_battle_v0": {"talk": 2},
    "team_battle_v1": {"talk": 2},
    "social_trading_v0": {"talk": 2},
    "social_negotiation_v0": {"talk": 2},
}
"""Further options, for one more set."""


def option_sets():
    for name in registry.names():
        sets = {mode: {"obs_mode": mode} for mode in ("vector", "dict", "llm")}
        sets["other"] = OTHER.get(name.rpartition("_")[0], {"num_agents": 3})
        for label, options in sets.items():
            marks = pytest.mark.slow if writes(name) and label != "vector" else ()
            yield pytest.param(name, options, id=f"{name}-{label}", marks=marks)
            if name in MORE and label == "llm":
                yield pytest.param(name, options | MORE[name], id=f"{name}-{label}-more")


every_set = pytest.mark.parametrize(("name", "options"), [*option_sets()])


def turn_based(name, **parameters):
    return registry.as_module(name).env(**parameters)


@every_set
def test_parallel(name, options):
    make = partial(registry.make, name, **options)
    parallel_api_test(make(), num_cycles=ROUNDS)
    parallel_seed_test(make, num_cycles=ROUNDS)


@every_set
def test_turn_based(name, options):
    make = partial(turn_based, name, **options)
    api_test(make(max_cycles=ROUNDS), num_cycles=ROUNDS)
    seed_test(make, num_cycles=ROUNDS)
    state_test(make(), registry.make(name, **options), num_cycles=ROUNDS)
    render_test(make)


@every_set
def test_max_cycles(name, options):
    def seeded(form, **parameters):
        env = form(name, **options, **parameters)
        for place, agent in enumerate(env.possible_agents):
            env.action_space(agent).seed(place)
        return env

    forms = {"parallel_env": partial(seeded, registry.make), "env": partial(seeded, turn_based)}
    max_cycles_test(SimpleNamespace(**forms))


# PettingZoo's max_cycles_test demands that sampled episodes last exactly max_cycles = 4 steps. By
# their rules, two games may end earlier, and are then terminated: negotiations that are settled or
# left, and debates with fewer rounds (debate_rounds=2). With the samples above, none of them does.


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


@pytest.mark.parametrize(("name", "kind"), [("maze_race_v0", "parallel"), ("math_v0", "aec")])
def test_pettingzoo_makes_environments_by_name(name, kind):
    game, version = name.rsplit("_", 1)
    env = pettingzoo.make(kind, f"srl/{game}-{version}", max_cycles=5)
    assert env.unwrapped.max_cycles == 5
    assert env.possible_agents == registry.make(name).possible_agents


@pytest.mark.parametrize("name", KINDS)
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
