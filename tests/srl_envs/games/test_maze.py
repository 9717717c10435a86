"""The rules of the maze, by hand, and what follows from them in any maze."""

import pytest
from pytest import approx

from srl_envs.errors import EnvConfigError
from srl_envs.games.maze import OBSERVATION_FIELDS, parallel_env
from srl_envs.games.maze_levels import MazeRecipe

UP, DOWN, LEFT, RIGHT = range(4)
BEND = ["A.#", "#..", "##G"]  # the way: right, down, right, down


def maze(layout=BEND, **parameters):
    env = parallel_env(layout=layout, **parameters)
    env.reset(seed=0)
    return env


def move(env, *actions):
    return env.step(dict(zip(env.agents, actions, strict=True)))


def field(observation, name):
    return observation[OBSERVATION_FIELDS.index(name)]


def test_a_walk_by_hand():
    env = maze()
    expected = [
        (UP, -0.14),  # out of the maze: stays, 4 from the goal
        (DOWN, -0.14),  # a wall
        (RIGHT, -0.13),
        (DOWN, -0.12),
        (RIGHT, -0.11),
        (LEFT, -0.12),
        (RIGHT, -0.11),
        (DOWN, 10.0),
    ]
    for action, reward in expected:
        assert env.agents == ["agent_0"]
        _, rewards, terminations, truncations, infos = move(env, action)
        assert rewards["agent_0"] == approx(reward)
    assert terminations == {"agent_0": True} and truncations == {"agent_0": False}
    assert env.agents == []
    info = infos["agent_0"]
    assert (info["shortest_path"], info["steps"], info["success"]) == (4, 8, True)
    assert info["level_seed"] is None and info["layout_hash"] == env.level.layout_hash
    assert "winner" not in info


def test_truncation_costs_one():
    env = maze(max_cycles=2)
    assert move(env, RIGHT)[1]["agent_0"] == approx(-0.13)
    _, rewards, terminations, truncations, infos = move(env, LEFT)
    assert rewards == {"agent_0": -1.0}
    assert truncations == {"agent_0": True} and terminations == {"agent_0": False}
    assert infos["agent_0"]["success"] is False


def test_arrival_in_the_last_round_earns_the_goal_reward():
    env = maze(max_cycles=4)
    for action in (RIGHT, DOWN, RIGHT):
        move(env, action)
    _, rewards, terminations, truncations, _ = move(env, DOWN)
    assert rewards == {"agent_0": 10.0}
    assert terminations == {"agent_0": True} and truncations == {"agent_0": False}


def test_observations():
    env = maze(max_cycles=10)
    observations, _ = env.reset(seed=0)
    seen = observations["agent_0"]
    assert seen[:15].tolist() == [0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]
    assert seen[15:].reshape(3, 3).tolist() == [[1, 1, 1], [1, 0, 0], [1, 1, 0]]
    observations = move(env, RIGHT)[0]
    observations = move(env, DOWN)[0]
    observations = move(env, LEFT)[0]  # a wall
    seen = dict(zip(OBSERVATION_FIELDS, observations["agent_0"].tolist(), strict=False))
    assert seen == approx(
        {
            "x": 0.5,
            "y": 0.5,
            "goal_dx": 0.5,
            "goal_dy": 0.5,
            "other_dx": 0,
            "other_dy": 0,
            "last_dx": -1,
            "last_dy": 0,
            "blocked": 1,
            "arrived": 0,
            "time": 0.3,
            "visits_up": 1 / 9,
            "visits_down": 0,
            "visits_left": 0,
            "visits_right": 0,
            "walls": 0,  # the first of them: the start, up and left
        }
    )
    walls = observations["agent_0"][15:].reshape(3, 3)
    assert walls.tolist() == [[0, 0, 1], [1, 0, 0], [1, 1, 0]]


def test_mask_walls_masks_blocked_moves():
    plain, telling = maze(), maze(mask_walls=True)
    for env, first, then in (
        (plain, [1, 1, 1, 1], [1, 1, 1, 1]),
        (telling, [0, 0, 0, 1], [0, 1, 1, 0]),
    ):
        _, infos = env.reset(seed=0)
        assert infos["agent_0"]["action_mask"].tolist() == first
        infos = move(env, RIGHT)[4]
        assert infos["agent_0"]["action_mask"].tolist() == then
        move(env, UP)  # legal all the same
    observations, _ = maze(mask_walls=True, obs_mode="dict").reset(seed=0)
    assert observations["agent_0"]["action_mask"].tolist() == [0, 0, 0, 1]


def test_race_ends_with_the_first_arrival():
    env = maze(num_agents=3)
    for actions in ((RIGHT, RIGHT, UP), (DOWN, DOWN, UP), (RIGHT, RIGHT, UP)):
        _, rewards, *_ = move(env, *actions)
    assert list(rewards.values()) == approx([-0.11, -0.11, -0.14])
    _, rewards, terminations, truncations, infos = move(env, UP, DOWN, UP)
    assert rewards == {"agent_0": -1.0, "agent_1": 10.0, "agent_2": -1.0}
    assert all(terminations.values()) and not any(truncations.values()) and env.agents == []
    assert {info["winner"] for info in infos.values()} == {"agent_1"}
    assert [info["success"] for info in infos.values()] == [False, True, False]


def test_agents_at_own_goals_wait_for_the_others():
    env = maze(["A..", "..G"], num_agents=2, task="own", max_cycles=9)
    for actions in ((RIGHT, UP), (RIGHT, UP)):
        *_, infos = move(env, *actions)
    assert [info["shortest_path"] for info in infos.values()] == [3, 3]
    # agent_0 arrives where agent_1 began, which is at (2, 0), 2 from (0, 0).
    observations, rewards, terminations, _, infos = move(env, DOWN, UP)
    assert rewards == approx({"agent_0": 10.0, "agent_1": -0.12})
    assert not any(terminations.values()) and env.agents == ["agent_0", "agent_1"]
    assert field(observations["agent_0"], "arrived") == 1
    said = env.text_view.describe("agent_0", observations["agent_0"])
    assert "your moves no longer count" in said
    observations, rewards, *_ = move(env, UP, LEFT)  # agent_0 stays where it is
    assert rewards == approx({"agent_0": 0.0, "agent_1": -0.11})
    assert observations["agent_0"][:2].tolist() == [1, 1]
    _, rewards, terminations, truncations, infos = move(env, LEFT, LEFT)
    assert rewards == {"agent_0": 0.0, "agent_1": 10.0}
    assert all(terminations.values()) and not any(truncations.values())
    assert [info["steps"] for info in infos.values()] == [3, 5]


def test_meet_ends_when_all_are_in_one_cell():
    env = maze(["A....", "####.", "G...."], num_agents=2, task="meet", max_cycles=20)
    # The Manhattan distance of (1, 0) and (1, 2) is 2.
    observations, rewards, *_, infos = move(env, RIGHT, RIGHT)
    assert infos["agent_0"]["shortest_path"] == 5  # The agents start 10 cells apart.
    assert rewards == approx({"agent_0": -0.12, "agent_1": -0.12})
    assert field(observations["agent_0"], "goal_dy") == 1  # the other one
    for _ in range(3):
        move(env, RIGHT, RIGHT)
    _, rewards, terminations, truncations, infos = move(env, DOWN, UP)
    assert rewards == {"agent_0": 10.0, "agent_1": 10.0}
    assert all(terminations.values()) and not any(truncations.values())
    assert [info["success"] for info in infos.values()] == [True, True]


def test_every_episode_has_a_new_maze_of_the_split():
    for split in ("train", "test"):
        env = parallel_env(width=7, height=7, split=split, max_cycles=1)
        seeds = set()
        for _ in range(20):
            env.reset()
            *_, infos = move(env, UP)
            seeds.add(infos["agent_0"]["level_seed"])
            assert env.level.split == split and env.level.seed == infos["agent_0"]["level_seed"]
        assert len(seeds) == 20


def test_level_seed_is_independent_of_episode_seed():
    recipe = MazeRecipe(7, 7, 0.1)
    seed = recipe.level_seeds("train", 3)[-1]
    env = parallel_env(width=7, height=7, loop_share=0.1, level_seed=seed)
    for episode_seed in (1, 2, None):
        env.reset(seed=episode_seed)
        assert env.level == recipe.level(seed)
    free = parallel_env(width=7, height=7, loop_share=0.1)
    free.reset(seed=1, options={"level_seed": seed})
    assert free.level == recipe.level(seed)
    free.reset(seed=1)
    drawn = free.level
    free.reset(seed=1)
    assert free.level == drawn != recipe.level(seed)


def test_held_out_level_seed_raises():
    holdout = MazeRecipe().level_seeds("test", 1)[0]
    with pytest.raises(EnvConfigError, match=f"level_seed .* got {holdout}"):
        parallel_env(level_seed=holdout)
    parallel_env(level_seed=holdout, split="test")
    env = parallel_env()
    with pytest.raises(EnvConfigError, match="train split"):
        env.reset(options={"level_seed": holdout})
    parallel_env(split="any").reset(options={"level_seed": holdout})
