"""Interface of vectorized games: shapes, seeds, errors, and copies of arrays."""

import pickle

import numpy as np
import pytest

from srl_envs import make, vector
from srl_envs.errors import EnvError
from tests.srl_envs.vector.singles import names


@pytest.mark.parametrize("name", names())
def test_shapes_and_kinds(name):
    games, single = vector.make(name, 3), make(name)
    observations, infos = games.reset(seed=0)
    agents = single.possible_agents
    assert games.possible_agents == agents
    assert games.single_observation_space == single.observation_space(agents[0])
    assert games.single_action_space == single.action_space(agents[0])
    shape = (3, len(agents))
    seen = (*shape, *games.single_observation_space.shape)
    assert (observations.shape, observations.dtype) == (seen, np.float32)
    assert infos["action_mask"].shape == (*shape, games.single_action_space.n)
    assert infos["action_mask"].dtype == np.int8
    observations, rewards, terminations, truncations, _ = games.step(np.zeros(shape, int))
    assert (observations.shape, observations.dtype) == (seen, np.float32)
    assert (rewards.shape, rewards.dtype) == (shape, np.float64)
    for ends in (terminations, truncations):
        assert (ends.shape, ends.dtype) == (shape, bool)
    games.close()


@pytest.mark.parametrize("name", ["coop_compete_v0", "maze_v0", "social_trading_v0"])
def test_int_seed_increments_per_environment(name):
    games = vector.make(name, 3)
    first, _ = games.reset(seed=4)
    again, _ = games.reset(seed=[4, 5, 6])
    assert np.array_equal(first, again)
    alone, _ = vector.make(name, 1).reset(seed=6)
    assert np.array_equal(alone[0], first[2])
    if name != "coop_compete_v0":  # where the start is drawn
        assert not np.array_equal(games.reset()[0], first)


def everything(outcome):
    """All arrays of an outcome, those within dicts too."""
    for part in outcome:
        if isinstance(part, dict):
            yield from everything(part.values())
        else:
            yield part


@pytest.mark.parametrize("name", ["coop_compete_v0", "team_battle_v0", "staged_v0", "bandit_v0",
                                  "maze_race_v0", "social_trading_v0"])  # fmt: skip
def test_returned_arrays_are_copies(name):
    games, spoilt = (vector.make(name, 3, max_cycles=5) for _ in range(2))
    generator = np.random.default_rng(0)
    kept = [games.reset(0)]
    spoilt.reset(0)
    copies = [[array.copy() for array in everything(kept[0])]]
    for _ in range(13):
        actions = generator.integers(0, games.single_action_space.n, (3, games.num_agents))
        outcome, other = games.step(actions), spoilt.step(actions.copy())
        for array, same in zip(everything(outcome), everything(other), strict=True):
            assert np.array_equal(array, same)
            same[...] = None if same.dtype == object else 1
        kept.append(outcome)
        copies.append([array.copy() for array in everything(outcome)])
    for outcome, copied in zip(kept, copies, strict=True):
        for array, before in zip(everything(outcome), copied, strict=True):
            assert np.array_equal(array, before)


WRONG_ACTIONS = [
    (np.zeros((2, 2)), "actions must be integers, got an array of float64"),
    (np.zeros((2, 2), bool), "actions must be integers, got an array of bool"),
    (np.zeros((2,), int), r"actions must have shape \(2, 2\), .* got \(2,\)"),
    (np.zeros((2, 3), int), r"got \(2, 3\)"),
    ([[0, 1], [2, 5]], "actions must be from 0 to 1, got 0 to 5"),
    ([[0, 1], [1, -1]], "actions must be from 0 to 1, got -1 to 1"),
    (np.full((2, 2), 2**64 - 1, np.uint64), "actions must be from 0 to 1, got -1 to -1"),
]


@pytest.mark.parametrize(("actions", "message"), WRONG_ACTIONS)
def test_wrong_actions_raise_and_change_nothing(actions, message):
    games, other = (vector.make("coop_compete_v0", 2, num_agents=2) for _ in range(2))
    games.reset(0)
    other.reset(0)
    with pytest.raises(EnvError, match=message):
        games.step(actions)
    right = np.ones((2, 2), int)
    for one, same in zip(games.step(right)[:4], other.step(right)[:4], strict=True):
        assert np.array_equal(one, same)


def test_step_before_reset_raises():
    with pytest.raises(EnvError, match=r"call reset\(\) first"):
        vector.make("bandit_v0", 2).step(np.zeros((2, 1), int))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"seed": [1, 2, 3]},
            "seed must be one number or 2, one for each environment, got .1, 2, 3.",
        ),
        ({"seed": np.array(3)}, "seed must be one number or 2"),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
        ({"seed": ["a", 1]}, "seed must be a whole number of at least 0, got 'a'"),
    ],
)
def test_wrong_resets_raise(arguments, message):
    games = vector.make("bandit_v0", 2)
    games.reset(0)
    with pytest.raises(EnvError, match=message):
        games.reset(**arguments)


@pytest.mark.parametrize("name", ["maze_v0", "social_trading_v0"])
def test_pickled_copy_continues_identically(name):
    games = vector.make(name, 2, max_cycles=9)
    games.reset(seed=0)
    actions = np.zeros((2, games.num_agents), int)
    games.step(actions)
    twin = pickle.loads(pickle.dumps(games))
    for _ in range(12):
        for one, same in zip(games.step(actions)[:4], twin.step(actions)[:4], strict=True):
            assert np.array_equal(one, same)
