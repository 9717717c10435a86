"""Arguments that `reset` refuses, in single environments and in vectorized ones."""

import pytest

from srl_envs import registry, vector
from srl_envs.errors import EnvConfigError, EnvError

OPTIONS = {  # that a game refuses
    "staged_v0": {"episode": -1},
    "team_battle_v0": {"episode": "first"},
    "maze_v0": {"level_seed": -1},
}


def refused(game):
    """Return invalid arguments of reset, with a part of the error."""
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


@pytest.mark.parametrize("name", ["staged_v0", "maze_v0", "social_trading_v0"])
def test_invalid_reset_starts_no_episode(name):
    env = registry.make(name, max_cycles=20)
    for arguments, said in refused(name):
        with pytest.raises(EnvConfigError, match=said):
            env.reset(**arguments)
        with pytest.raises(EnvError, match="without a running episode"):
            env.step(dict.fromkeys(env.possible_agents, 1))
    env.max_cycles = 0
    with pytest.raises(EnvConfigError, match="max_cycles"):
        env.reset()


@pytest.mark.parametrize("name", OPTIONS)
def test_vector_environments_check_reset_options(name):
    games = vector.make(name, 3, max_cycles=20)
    for arguments, said in refused(name):
        with pytest.raises(EnvConfigError, match=said):
            games.reset(**arguments)
