"""Observations in words, from their space alone."""

import numpy as np
import pytest
from gymnasium import spaces

from srl_envs.errors import EnvConfigError
from srl_envs.wrappers import MOST_NUMBERS, in_words


@pytest.mark.parametrize(
    ("space", "value", "words"),
    [
        (spaces.Discrete(3), np.int64(2), "2"),
        (spaces.Box(-1, 1, (3,)), np.array([0.126, -0.001, 1.0]), "0.13 0 1"),
        (spaces.Box(0, 9, (2, 2), np.int8), np.array([[1, 2], [3, 4]]), "\n1 2\n3 4"),
        (spaces.MultiBinary(3), np.array([1, 0, 1]), "1 0 1"),
        (spaces.Text(9), "hello", "hello"),
        (
            spaces.Dict({"own_hand": spaces.MultiBinary(2), "score": spaces.Discrete(5)}),
            {"own_hand": np.array([0, 1]), "score": 3},
            "\nown hand: 0 1\nscore: 3",
        ),
        (
            spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 1, (2, 2)))),
            (1, np.eye(2)),
            "\n0: 1\n1:\n1 0\n0 1",
        ),
    ],
)
def test_reads(space, value, words):
    assert in_words(space, value).lstrip(" ") == words


@pytest.mark.parametrize(
    "space",
    [spaces.Tuple([spaces.Box(0, 1, (MOST_NUMBERS + 1,))]), spaces.Graph(spaces.Discrete(2), None)],
)
def test_refuses(space):
    with pytest.raises(EnvConfigError, match="describe="):
        in_words(space, space.sample())
