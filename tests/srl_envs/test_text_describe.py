"""What an observation reads like, from its space alone and with names."""

import numpy as np
import pytest
from gymnasium import spaces

from srl_envs.errors import EnvConfigError
from srl_envs.text import LARGEST, reader


@pytest.mark.parametrize(
    ("space", "names", "value", "words"),
    [
        (spaces.Discrete(3), None, np.int64(2), "2"),
        (spaces.Discrete(2, start=1), ("hit", "missed"), 2, "missed"),
        (spaces.Box(-1, 1, (3,)), None, np.array([0.126, -0.001, 1.0]), "0.13 0 1"),
        (spaces.Box(-1, 1, (2,)), ("x", "y"), np.array([0.5, -0.25]), "x 0.5, y -0.25"),
        (spaces.Box(0, 9, (2, 2), np.int8), None, np.array([[1, 2], [3, 4]]), "1 2\n3 4"),
        (
            spaces.Box(0, 1, (2, 2, 2), np.int8),
            None,
            np.array([[[1, 0], [0, 0]], [[0, 0], [0, 1]]]),
            "plane 1:\n1 0\n0 0\nplane 2:\n0 0\n0 1",
        ),
        (spaces.MultiDiscrete([3, 4]), ("wood", "iron"), np.array([2, 3]), "wood 2, iron 3"),
        (spaces.MultiBinary(3), ("door", "lamp", "key"), np.array([1, 0, 1]), "door, key"),
        (spaces.MultiBinary(2), ("door", "lamp"), np.array([0, 0]), "none"),
        (spaces.Text(9), None, "hello", "hello"),
        (
            spaces.Dict({"own_hand": spaces.MultiBinary(2), "score": spaces.Discrete(5)}),
            {"own_hand": ("ace", "king")},
            {"own_hand": np.array([0, 1]), "score": 3},
            "own hand: king\nscore: 3",
        ),
        (
            spaces.Tuple((spaces.Discrete(2), spaces.Box(0, 1, (2, 2)))),
            {0: ("off", "on")},
            (1, np.eye(2)),
            "0: on\n1:\n1 0\n0 1",
        ),
    ],
)
def test_reads(space, names, value, words):
    assert reader(space, names)(value) == words


@pytest.mark.parametrize(
    ("space", "names", "said"),
    [
        (spaces.Discrete(3), ("a", "b"), "is Discrete\\(3\\): give 3 names, got \\('a', 'b'\\)"),
        (spaces.Discrete(3), "abc", "give 3 names, got 'abc'"),
        (spaces.Discrete(3), {0: "a"}, "which has no parts"),
        (spaces.Box(0, 1, (2,)), ("a",), "give 2 names"),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"b": ("x", "y")}, "has the parts 'a'"),
        (spaces.Dict({"a": spaces.Discrete(2)}), ("x", "y"), "has the parts 'a'"),
        (spaces.Dict({"a": spaces.Discrete(2)}), {"a": ("x",)}, r"\['a'\] is Discrete.*2 names"),
        (spaces.Box(0, 1, (LARGEST + 1,)), None, "more than the 256 that read as words"),
        (spaces.Graph(spaces.Discrete(2), None), None, "does not read as words: give describe="),
    ],
)
def test_refuses(space, names, said):
    with pytest.raises(EnvConfigError, match=said) as refused:
        reader(space, names)
    assert "\n" not in str(refused.value)
