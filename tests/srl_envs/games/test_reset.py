"""What `reset` refuses, in single environments and in vectorised ones, changes nothing."""

import numpy as np
import pytest

from srl_envs import registry, vector
from srl_envs.errors import EnvConfigError, EnvError
from tests.srl_envs.games.test_base import every_name, played_alike

AFTER = {"episode": 100}
OPTIONS = {  # that a game refuses
    "staged_v0": {"episode": -1},
    "team_battle_v0": {"episode": "first"},
    "maze_v0": {"level_seed": -1},
    "social_trading_v0": {"values": 5},
    "social_negotiation_v0": {"points": 5},
}


def refused(game):
    """Arguments of reset that are refused, and what is said of them."""
    wrong = [
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"seed": 1.5}, "seed must be a whole number of at least 0, got 1.5"),
        ({"seed": "x"}, "seed must be a whole number of at least 0, got 'x'"),
        ({"seed": True}, "seed must be a whole number of at least 0, got True"),
        ({"options": 5}, "options must be a mapping of names to values, got 5"),
        ({"options": [("episode", 1)]}, "options must be a mapping"),
    ]
    for name, value in OPTIONS.get(game, {}).items():
        wrong += [({"options": {name: value}, "seed": seed}, name) for seed in (None, 7)]
    return wrong


@every_name
def test_a_reset_that_is_refused_changes_nothing(name):
    env, untouched = registry.make(name, max_cycles=20), registry.make(name, max_cycles=20)
    wrong = refused(env.metadata["name"])
    for arguments, said in wrong:
        with pytest.raises(EnvConfigError, match=said):
            env.reset(**arguments)
        with pytest.raises(EnvError, match="without a running episode"):
            env.step(dict.fromkeys(env.possible_agents, 1))
    for one in (env, untouched):
        one.reset(seed=0, options=AFTER)
        one.step(dict.fromkeys(one.agents, 1))
    for arguments, said in wrong:
        with pytest.raises(EnvConfigError, match=said):
            env.reset(**arguments)
    env.max_cycles = 0
    with pytest.raises(EnvConfigError, match="max_cycles"):
        env.reset()
    env.max_cycles = 20
    played_alike(env, untouched, 6)
    for one in (env, untouched):  # without a seed: they go on with the same numbers
        one.reset(options=AFTER)
    played_alike(env, untouched, 6)


@pytest.mark.parametrize(
    "name", [name for name in registry.names() if registry.entry(name).module and name in OPTIONS]
)
def test_a_reset_of_many_that_is_refused_changes_nothing(name):
    games, untouched = (vector.make(name, 3, max_cycles=20) for _ in range(2))
    actions = np.ones((3, games.num_agents), int)
    for one in (games, untouched):
        one.reset(seed=0, options=AFTER)
        one.step(actions)
    some = np.array([False, True, False])
    for arguments, said in refused(name):
        for mask in (None, some):
            with pytest.raises(EnvConfigError, match=said):
                games.reset(**arguments, mask=mask)
    for _ in range(3):
        for one, same in zip(games.step(actions)[:4], untouched.step(actions)[:4], strict=True):
            assert np.array_equal(one, same)
    again = [one.reset(options=AFTER, mask=some)[0] for one in (games, untouched)]
    assert np.array_equal(*again)
    for one, same in zip(games.step(actions)[:4], untouched.step(actions)[:4], strict=True):
        assert np.array_equal(one, same)
