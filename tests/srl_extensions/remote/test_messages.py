"""Values and spaces as messages: without loss, and nothing else is read."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_envs.env_checker import _equal as same
from srl_envs.text import TextSpace
from srl_extensions.remote import environments_pb2 as pb
from srl_extensions.remote.messages import RemoteError, from_space, pack, to_space, unpack

PROTOCOL = Path(pb.__file__).parent
leaves = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
plain = st.recursive(
    leaves,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=4)
    ),
    max_leaves=20,
)


@settings(max_examples=20, deadline=None)
@given(plain)
def test_values_survive_packing(value):
    assert same(value, unpack(pack(value)))


@pytest.mark.parametrize(
    "value",
    [
        np.zeros((2, 0, 3), np.float32), np.array(True), np.arange(6, dtype=">i2").reshape(2, 3).T,
        np.float32(0.1), np.int64(-3), [np.zeros(2), np.ones(3)], {1: 2}, {"__numpy__": "array"},
        [1.5, math.inf], "\ud800", 2**4000,
    ],
)  # fmt: skip
def test_arrays_and_unusual_values(value):
    back = unpack(pack(value))
    assert same(value, back)
    assert not isinstance(back, np.ndarray) or back.flags.writeable


@pytest.mark.parametrize("value", [object(), {1, 2}, np.array(["a"]), np.array([None]), 1j])
def test_unsupported_values_are_refused(value):
    with pytest.raises(RemoteError):
        pack(value)


ARRAY = {"__numpy__": "array", "dtype": "<f4", "shape": [2], "data": [0, 1]}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff",
        b"[" * 100_000,
        *(
            json.dumps(ARRAY | wrong).encode()
            for wrong in (
                {"dtype": "O"}, {"shape": [3]}, {"shape": [2**63]}, {"shape": ["x"]},
                {"shape": [-2]}, {"shape": 2}, {"data": ["x", "y"]},
                {"__numpy__": "mapping", "data": [[[], 1]]},
                {"__numpy__": "tuple", "data": 1},
            )
        ),
    ],
)  # fmt: skip
def test_invalid_data_is_refused(data):
    with pytest.raises(RemoteError):
        unpack(data)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (2, 3), np.float32), spaces.Box(0, 255, (4,), np.uint8),
        spaces.Box(-np.inf, np.inf, (1,), np.float64), spaces.Discrete(5, start=2),
        spaces.MultiDiscrete([2, 3]), spaces.MultiBinary((2, 2)), TextSpace(7),
        spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Dict({"c": spaces.Discrete(3)})}),
    ],
    ids=str,
)  # fmt: skip
def test_spaces_survive_and_sample_equally(space):
    back = from_space(unpack(pack(to_space(space))))
    assert back == space and type(back) is type(space)
    space.seed(3)
    back.seed(3)
    assert str(back.sample()) == str(space.sample())


@pytest.mark.parametrize(
    "plain_space",
    [
        None,
        {"type": "Box", "low": 1, "high": 2},
        {"type": "TextSpace", "max_length": "x"},
        {"type": "Dict", "spaces": {"a": 1}},
    ],
)
def test_invalid_spaces_are_refused(plain_space):
    with pytest.raises(RemoteError):
        from_space(plain_space)


def test_generated_module_is_up_to_date(tmp_path):
    pytest.importorskip("grpc_tools")
    proto = "srl_extensions/remote/environments.proto"
    words = ["-m", "grpc_tools.protoc", "-I", ".", f"--python_out={tmp_path}", proto]
    subprocess.run([sys.executable, *words], cwd=PROTOCOL.parents[1], check=True)
    written = (tmp_path / proto).with_name("environments_pb2.py").read_text()
    assert written == (PROTOCOL / "environments_pb2.py").read_text(), "make protos"
