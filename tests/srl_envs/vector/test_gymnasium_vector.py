"""Vectorised games as gymnasium's, and what gymnasium makes of them."""

import gymnasium
import numpy as np
import pytest
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from srl_envs import registry, vector
from srl_envs.errors import EnvConfigError, EnvError
from srl_envs.wrappers import single_agent_env

IDENTITIES = [
    entry.gymnasium_id
    for entry in registry.ENVS.values()
    if entry.gymnasium_id and "free text" not in entry.tags
]


def same(one, other):
    """Equal outcomes, infos and the objects in them included."""
    if isinstance(one, dict):
        assert one.keys() == other.keys()
        for key, value in one.items():
            same(value, other[key])
    elif isinstance(one, np.ndarray) and one.dtype == object:
        assert len(one) == len(other)
        for x, y in zip(one, other, strict=True):
            assert np.array_equal(x, y)
    else:
        assert np.array_equal(one, other)


@pytest.mark.parametrize("mode", AutoresetMode)
@pytest.mark.parametrize(
    ("name", "parameters"),
    [
        ("bandit_v0", {"max_cycles": 3}),
        ("maze_v0", {"max_cycles": 5}),
        ("maze_v0", {"layout": ("A.", ".G"), "max_cycles": 6}),
    ],
)
def test_one_seat_is_gymnasiums_own_loop_over_the_single_one(name, parameters, mode):
    env = vector.AgentVectorEnv(vector.make(name, 3, mode, **parameters))
    loop = SyncVectorEnv([lambda: single_agent_env(name, **parameters)] * 3, autoreset_mode=mode)
    assert isinstance(env, VectorEnv)
    for attribute in ("num_envs", "single_action_space", "single_observation_space",
                      "action_space", "observation_space"):  # fmt: skip
        assert getattr(env, attribute) == getattr(loop, attribute), attribute
    assert env.metadata["autoreset_mode"] is mode
    generator = np.random.default_rng(0)
    for one, other in zip(env.reset(seed=3), loop.reset(seed=3), strict=True):
        same(one, other)
    for _ in range(30):
        actions = generator.integers(0, env.single_action_space.n, 3)
        outcome, expected = env.step(actions), loop.step(actions)
        for one, other in zip(outcome, expected, strict=True):
            same(one, other)
        assert env.observation_space.contains(outcome[0])
        over = expected[2] | expected[3]
        if mode is AutoresetMode.DISABLED and over.any():
            again = env.reset(options={"reset_mask": over})
            for one, other in zip(again, loop.reset(options={"reset_mask": over}), strict=True):
                same(one, other)
    env.close()


@pytest.mark.parametrize("identity", IDENTITIES)
def test_make_vec_gives_the_vectorised_game(identity):
    env = gymnasium.make_vec(identity, num_envs=3, max_cycles=4)
    assert isinstance(env.unwrapped, vector.AgentVectorEnv)
    assert env.spec.id == identity
    observations, _ = env.reset(seed=0)
    assert env.observation_space.contains(observations)
    env.action_space.seed(0)
    for _ in range(6):
        env.step(env.action_space.sample())
    env.close()
    loop = gymnasium.make_vec(identity, 2, vectorization_mode="sync")
    loop.reset(seed=0)
    loop.close()


def test_make_vec_of_several_seats_is_refused():
    with pytest.raises(EnvConfigError, match="Gymnasium plays one agent, and the game has 2"):
        gymnasium.make_vec("srl/Bandit-v0", num_envs=2, num_agents=2)


def test_every_seat_is_an_environment_of_its_own():
    game = vector.make("team_battle_v0", 2, "SameStep", team_size=(1, 2), max_cycles=2)
    twin = vector.make("team_battle_v0", 2, "SameStep", team_size=(1, 2), max_cycles=2)
    env = vector.AgentVectorEnv(game)
    assert env.num_envs == 6
    observations, _ = env.reset(seed=[4, 9])
    assert np.array_equal(observations, twin.reset([4, 9])[0].reshape(6, -1))
    assert env.observation_space.contains(observations)
    for turn in range(3):
        actions = np.array([0, 1, 1, 1, 0, 1])
        outcome, expected = env.step(actions), twin.step(actions.reshape(2, 3))
        for one, other in zip(outcome[:4], expected[:4], strict=True):
            assert np.array_equal(one, other.reshape(6, *other.shape[2:]))
        infos, seen = outcome[4], expected[4]
        same(infos["action_mask"], seen["action_mask"].reshape(6, 2))
        if turn == 1:
            assert infos["_final_obs"].all()
            same(infos["final_obs"][4], seen["final_obs"][1, 1])
            team = infos["final_info"]["team_cooperation"]["team_b"]
            assert team.tolist() == [1.0] * 3 + [0.5] * 3


def test_tasks_are_stepped_one_by_one():
    envs = gymnasium.make_vec("srl/Math-v0", num_envs=2, vectorization_mode="sync")
    seen, _ = envs.reset(seed=0)
    assert len(set(seen["text"])) == 2
    _, rewards, *_ = envs.step(("Answer: no", "Answer: no"))
    assert rewards.tolist() == [0.0, 0.0]
    envs.close()


def test_seats_of_an_environment_are_reset_together():
    env = vector.AgentVectorEnv(vector.make("coop_compete_v0", 2, "Disabled", num_agents=2))
    env.reset(seed=0)
    env.step(np.ones(4, int))
    observations, _ = env.reset(options={"reset_mask": np.array([False, False, True, True])})
    assert observations[:, 0].tolist() == [0.0, 0.0, 1.0, 1.0]  # first_round
    with pytest.raises(EnvError, match="all agents of an environment or none"):
        env.reset(options={"reset_mask": np.array([True, False, True, True])})
    with pytest.raises(EnvError, match=r"bool array of shape \(4,\)"):
        env.reset(options={"reset_mask": np.array([True, False])})
    with pytest.raises(EnvError, match="one for each of 4 agents"):
        env.step(np.ones((2, 2), int))
