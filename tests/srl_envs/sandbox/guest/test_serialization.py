import pytest
from hypothesis import given
from hypothesis import strategies as st

from srl_envs.sandbox import NotPlainError
from srl_envs.sandbox.guest.serialization import dumps, loads, same

keys = st.none() | st.booleans() | st.integers() | st.text(max_size=5) | st.binary(max_size=5)
plain = st.recursive(
    keys | st.floats(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(keys, inner, max_size=4)
        | st.sets(keys, max_size=4)
        | st.frozensets(keys, max_size=4)
    ),
    max_leaves=12,
)


@given(plain)
def test_round_trip_keeps_the_value(value):
    line = dumps(value)
    assert b"\n" not in line and same(value, loads(line))


@given(
    st.binary(max_size=60) | st.text(alphabet='[]{}",:tdsfbic019.eE-', max_size=60).map(str.encode)
)
def test_any_line_is_plain_data_or_refused(line):
    try:
        value = loads(line)
    except NotPlainError:
        return
    assert same(value, loads(dumps(value)))


@pytest.mark.parametrize(
    "line",
    [b"", b"nul", b"[" * 100_000, b'{"x": []}', b'{"t": []', b'{"d": [1]}', b'{"s": [[1]]}',
     b'{"i": "z"}', b'{"b": "zz"}', b'{"c": [1]}', b'{"t": [], "s": []}', b"{}", b"\xff",
     b'{"c": ["a", 1]}', b'{"c": [' + b"9" * 4000 + b", 1]}"],
    ids=range(15),
)  # fmt: skip
def test_invalid_lines_are_refused(line):
    with pytest.raises(NotPlainError):
        loads(line)


def test_many_keys_with_one_hash_are_refused():
    pairs = ",".join(f"[{i * (2**61 - 1)},0]" for i in range(1000))
    with pytest.raises(NotPlainError, match="one hash"):
        loads(f'{{"d":[{pairs}]}}'.encode())


@pytest.mark.parametrize("value", [object(), [print], float, {"a": {1: range(3)}}])
def test_objects_are_not_plain(value):
    with pytest.raises(NotPlainError):
        dumps(value)


@pytest.mark.parametrize(
    ("one", "other"),
    [(1, True), (1, 1.0), ([1], (1,)), ({1}, frozenset({1})), ({1: 2}, {True: 2}), ({1}, {True}),
     ("a", b"a"), (None, False), ([1, 2], [1]), ({"a": 1}, {"a": 1, "b": 2})],
)  # fmt: skip
def test_equal_values_of_different_types_are_not_the_same(one, other):
    assert same(one, one) and same(other, other)
    assert not same(one, other) and not same(other, one)
