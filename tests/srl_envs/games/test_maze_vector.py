"""Which mazes the environments of the array form are given."""

import numpy as np
import pytest

from srl_envs import make, vector
from srl_envs.games.maze_levels import MazeRecipe


@pytest.mark.parametrize("parameters", [{"split": "test"}, {"num_levels": 5}])
def test_each_environment_gets_the_levels_of_its_own_generator(parameters):
    games = vector.make("maze_v0", 20, max_cycles=1, **parameters)
    games.reset(seed=7)
    played = []
    for _ in range(6):
        *_, infos = games.step(np.zeros((20, 1), int))
        played.append(infos["level_seed"][:, 0].tolist())
        games.step(np.zeros((20, 1), int))
    for i in (0, 17, 19):
        single = make("maze_v0", **parameters)
        expected = []
        for episode in range(6):
            single.reset(seed=None if episode else 7 + i)
            expected.append(single.level.seed)
        assert [seeds[i] for seeds in played] == expected


def test_num_levels_repeats_the_first_of_the_split():
    recipe, games = MazeRecipe(), vector.make("maze_v0", 64, num_levels=3, split="test")
    games.reset(seed=0)
    *_, infos = games.step(np.zeros((64, 1), int))
    assert set(infos["level_seed"][:, 0]) == set(recipe.level_seeds("test", 3))
