"""Mazes made many at once are those that a recipe makes one by one."""

import numpy as np
import pytest

from srl_envs import vector
from srl_envs.errors import EnvConfigError
from srl_envs.games.maze.generator import MazeRecipe
from srl_envs.games.maze.vector_walks import is_test, layout_hashes, walks
from srl_envs.vector.rng import Draws
from srl_envs.vector.streams import Streams


def test_streams_are_numpys():
    seeds = np.array([0, 1, 2**31, 2**32 - 1, *np.random.default_rng(0).integers(2**32, size=200)])
    streams = Streams(seeds)
    drawn = streams.uniforms(50)
    expected = np.array([np.random.default_rng(seed).random(80) for seed in seeds.tolist()])
    assert np.array_equal(drawn, expected[:, :50])
    streams.keep(np.arange(len(seeds)) % 3 == 0)
    assert np.array_equal(streams.uniforms(30), expected[::3, 50:])


@pytest.mark.parametrize(("width", "height"), [(9, 9), (3, 3), (4, 7), (12, 5)])
def test_walks_and_hashes_are_the_recipes(width, height):
    recipe, seeds = MazeRecipe(width, height), np.arange(120)
    made = walks(width, height, Streams(seeds).uniforms(width * height))
    hashes = layout_hashes(width, height, made.shut)
    compared = 0
    for seed, shut, moves, layout_hash in zip(seeds.tolist(), *made, hashes, strict=True):
        assert shut[-1] == (moves < 0)
        if moves < 0:
            continue  # the recipe throws this one away, and goes on with the same numbers
        level = recipe.level(seed)
        assert shut.tolist() == [not ways for ways in level.doors]
        assert moves == level.shortest_path
        assert layout_hash == level.layout_hash
        assert is_test(layout_hash) == (level.split == "test")
        compared += 1
    assert compared > 60


@pytest.mark.parametrize("parameters", [{"split": "test"}, {"min_path": 24}, {"split": "any"}])
def test_each_environment_gets_the_levels_of_its_own_generator(parameters):
    games = vector.make("maze_v0", 40, max_cycles=1, **parameters)
    _, infos = games.reset(seed=7)
    played = [infos["level_seed"][:, 0].tolist()]
    for _ in range(12):
        games.step(np.zeros((40, 1), int))
        *_, infos = games.step(np.zeros((40, 1), int))
        played.append(infos["level_seed"][:, 0].tolist())
    recipe = MazeRecipe(min_path=parameters.get("min_path", 0))
    for i in (0, 17, 39):
        generator = np.random.default_rng(7 + i)
        split = parameters.get("split", "train")
        expected = [recipe.sample(generator, split).seed for _ in played]
        assert [seeds[i] for seeds in played] == expected


@pytest.mark.parametrize("num_envs", [2, 20])
def test_mazes_that_cannot_be_made_are_refused(num_envs, monkeypatch):
    games = vector.make("maze_v0", num_envs, width=3, height=3, min_path=5)
    with pytest.raises(EnvConfigError, match="no maze with so long a path among 10000"):
        games.reset(seed=0)
    with pytest.raises(EnvConfigError, match="num_agents must be at most 5 with task='own'"):
        vector.make("maze_own_v0", num_envs, width=3, height=3, num_agents=6)
    monkeypatch.setattr(
        "srl_envs.games.maze.vector_levels.ATTEMPTS", 1
    )  # one in five is of the split
    with pytest.raises(EnvConfigError, match="no maze of the test split among"):
        vector.make("maze_v0", num_envs, split="test").reset(seed=0)


def test_draws_are_each_environments_own_stream(monkeypatch):
    monkeypatch.setattr("srl_envs.vector.rng.MOST", 6)  # so that blocks end soon
    draws = Draws(4, 2, lambda generator, out: generator.random(out=out))
    draws.restart(range(4), range(4))
    expected = [np.random.default_rng(i).random((60, 2)) for i in range(4)]
    used, generator = [0] * 4, np.random.default_rng(0)
    for turn in range(40):
        idle = generator.random(4) < 0.3 if 10 <= turn < 20 else None
        if turn == 25:  # one begins anew
            draws.restart([2], [2])
            used[2] = 0
        if turn == 30:
            idle = np.ones(4, bool)
        taken = draws.take(idle)
        for i in range(4):
            if idle is None or not idle[i]:
                assert taken[i].tolist() == expected[i][used[i]].tolist(), (turn, i)
                used[i] += 1
