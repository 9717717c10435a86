"""Values and spaces on the wire: without loss, and nothing else is read."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from srl_envs.env_checker import _same as same
from srl_envs.text import TextSpace
from srl_extensions.remote import environments_pb2 as pb
from srl_extensions.remote.errors import WireError
from srl_extensions.remote.messages import from_space, from_value, to_space, to_value

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


@settings(max_examples=150, deadline=None)
@given(plain)
def test_values_come_back_as_they_were(value):
    message = pb.Value.FromString(to_value(value).SerializeToString())
    assert same(value, from_value(message))


@pytest.mark.parametrize(
    "value",
    [
        np.zeros((2, 0, 3), np.float32), np.array(True), np.arange(6, dtype=">i2").reshape(2, 3).T,
        np.float32(0.1), np.int64(-3), [np.zeros(2), np.ones(2)], [np.zeros(2), np.ones(3)],
        [np.zeros(0)] * 3, [np.array(1.0), np.array(2.0)], [{"a": np.zeros(2), "b": 1.5}] * 3,
        [{}, {}], [{"a": 1}, {"b": 1}], [{1: 2}, {1: 3}], [1.5, math.inf], [0.5, 1], 2**4000,
    ],
)  # fmt: skip
def test_arrays_and_lists_of_what_is_alike(value):
    back = from_value(pb.Value.FromString(to_value(value).SerializeToString()))
    assert same(value, back)
    for array in back if isinstance(back, list) else [back]:
        assert not isinstance(array, np.ndarray) or array.flags.writeable


def test_nan_and_minus_zero_are_kept():
    nan, zero = from_value(to_value((math.nan, -0.0)))
    assert math.isnan(nan) and math.copysign(1.0, zero) == -1.0


@pytest.mark.parametrize(
    "value", [object(), {1, 2}, np.array(["a"]), np.array([None]), 1j, 2**9000, "\ud800"]
)
def test_what_has_no_form_is_refused(value):
    with pytest.raises(WireError):
        to_value(value)


@pytest.mark.parametrize(
    "message",
    [
        pb.Value(),
        pb.Value(array=pb.Array(dtype="O", shape=[1], data=b"12345678")),
        pb.Value(array=pb.Array(dtype="<f4", shape=[3], data=b"12345678")),
        pb.Value(array=pb.Array(dtype="<f4", shape=[2**63], data=b"")),
        pb.Value(rows=pb.Array(dtype="<f4", shape=[10**9, 0], data=b"")),
        pb.Value(mapping=pb.Mapping(names=["a"])),
        pb.Value(columns=pb.Mapping(names=["a"], values=[to_value(1)])),
        pb.Value(columns=pb.Mapping(names=["a", "b"], values=[to_value([1]), to_value([])])),
        pb.Value(pairs=pb.Items(items=[to_value([]), to_value(1)])),
        pb.Value(large=b"x" * 2000),
    ],
)
def test_what_is_no_value_is_refused(message):
    with pytest.raises(WireError):
        from_value(message)


@pytest.mark.parametrize(
    "space",
    [
        spaces.Box(-1, 1, (2, 3), np.float32), spaces.Box(0, 255, (4,), np.uint8),
        spaces.Box(-np.inf, np.inf, (1,), np.float64), spaces.Discrete(5, start=2),
        spaces.MultiDiscrete([2, 3]), spaces.MultiBinary((2, 2)), TextSpace(7),
        spaces.Text(5, min_length=2, charset="abc"),
        spaces.Dict({"b": spaces.Discrete(2), "a": spaces.Tuple([spaces.Discrete(3)])}),
    ],
    ids=str,
)  # fmt: skip
def test_spaces_come_back_and_draw_alike(space):
    back = from_space(pb.Space.FromString(to_space(space).SerializeToString()))
    assert back == space and type(back) is type(space)
    space.seed(3)
    back.seed(3)
    assert str(back.sample()) == str(space.sample())


@pytest.mark.parametrize(
    "message",
    [
        pb.Space(),
        pb.Space(box=pb.Box()),
        pb.Space(text=pb.Text(longest=1, shortest=5, letters="a")),
        pb.Space(dict=pb.Parts(keys=["a"])),
    ],
)
def test_what_is_no_space_is_refused(message):
    with pytest.raises(WireError):
        from_space(message)


def test_the_generated_module_is_up_to_date(tmp_path):
    pytest.importorskip("grpc_tools")
    proto = "srl_extensions/remote/environments.proto"
    words = ["-m", "grpc_tools.protoc", "-I", ".", f"--python_out={tmp_path}", proto]
    subprocess.run([sys.executable, *words], cwd=PROTOCOL.parents[1], check=True)
    written = (tmp_path / proto).with_name("environments_pb2.py").read_text()
    assert written == (PROTOCOL / "environments_pb2.py").read_text(), "make protos"


def test_a_few_bytes_do_not_stand_for_millions_of_values():
    nested = pb.Value(numbers=pb.Numbers(numbers=[0.0] * 10_000))
    for _ in range(40):  # a mapping for each number at every level
        nested = pb.Value(columns=pb.Mapping(names=["a"], values=[nested]))
    assert nested.ByteSize() < 100_000
    rows = pb.Value(rows=pb.Array(dtype="|i1", shape=[2**19, 1], data=bytes(2**19)))
    for message in (nested, rows, pb.Value(list=pb.Items(items=[rows] * 2))):
        with pytest.raises(WireError, match="more than 262144 values"):
            from_value(message)
