"""Episode records as JSON lines."""

import json
import math
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from srl_agents.episode import (
    AgentStep,
    Decision,
    End,
    Episode,
    ModelVersion,
    Tokens,
    from_json,
    read_jsonl,
    to_json,
    write_jsonl,
)
from srl_agents.errors import EpisodeError


def same(one, other):
    """Return True for equal values, types, dtypes and shapes; NaN equals itself."""
    if isinstance(one, np.ndarray | np.generic):
        return (
            type(one) is type(other)
            and one.dtype == other.dtype
            and one.shape == other.shape
            and _bits(one) == _bits(other)
        )
    if isinstance(one, dict | MappingProxyType):
        return (
            isinstance(other, dict)
            and list(one) == list(other)
            and all(type(a) is type(b) for a, b in zip(one, other, strict=True))
            and all(same(one[key], other[key]) for key in one)
        )
    if type(one) is not type(other):
        return False
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, float):
        return one == other or (math.isnan(one) and math.isnan(other))
    if hasattr(one, "__dataclass_fields__"):
        return all(same(getattr(one, n), getattr(other, n)) for n in one.__dataclass_fields__)
    return bool(one == other)


def _bits(value):
    value = np.array(value)
    if value.dtype.kind == "f":
        value[np.isnan(value)] = np.nan  # one NaN is as good as another
    return value.tobytes()


arrays = st.sampled_from(["<f4", "<f8", "|i1", "<i8", "|u1", "|b1"]).flatmap(
    lambda dtype: hnp.arrays(
        dtype, hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    )
)
numbers = st.one_of(
    st.integers(),
    st.floats(),
    st.booleans(),
    st.none(),
    st.integers(-128, 127).map(np.int8),
    st.integers(0, 2**40).map(np.int64),
    st.floats(width=32).map(np.float32),
    st.booleans().map(np.bool_),
)
keys = st.one_of(st.text(), st.just("__numpy__"), st.integers(), st.tuples(st.integers()))
values = st.recursive(
    st.one_of(numbers, st.text(), arrays),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(keys, inner, max_size=3),
        st.dictionaries(st.sampled_from(["observation", "action_mask"]), arrays),
    ),
    max_leaves=5,
)
ids = st.lists(st.integers(0, 2**31), max_size=4).map(tuple)
tokens = st.builds(
    Tokens,
    prompt_ids=ids,
    completion_ids=ids,
    logprobs=st.lists(st.floats(max_value=0), max_size=4).map(tuple),
    model=st.builds(
        ModelVersion,
        st.text(),
        st.integers() | st.text(),
        st.none() | st.text(),
    ),
    allowed=st.none() | st.lists(ids, max_size=3).map(tuple),
)
decisions = st.builds(
    Decision,
    action=values,
    text=st.none() | st.text(),
    tokens=st.none() | tokens,
    logprob=st.none() | st.floats(),
    parse_failure=st.none() | st.text(),
)
steps = st.builds(
    AgentStep,
    agent=st.text(),
    observation=values,
    decision=decisions,
    reward=st.floats(),
    info=st.dictionaries(st.text(), values, max_size=2),
    messages=st.lists(st.tuples(st.text(), st.text()), max_size=2).map(tuple),
)
ends = st.builds(
    End,
    truncated=st.booleans(),
    observation=values,
    prompt_ids=st.none() | ids,
    state=st.none() | arrays,
)
any_episode = st.builds(
    Episode,
    environment=st.text(),
    seed=st.integers(0),
    seats=st.dictionaries(st.text(), st.text(), max_size=3),
    turns=st.lists(st.lists(steps, max_size=2).map(tuple), max_size=2).map(tuple),
    failure=st.none() | st.text(),
    extra=st.dictionaries(st.text(), values, max_size=2),
    states=st.none() | st.lists(arrays, max_size=2).map(tuple),
    made_as=st.none()
    | st.fixed_dictionaries(
        {"name": st.text(), "options": st.dictionaries(st.text(), values, max_size=2)}
    ),
    reset_options=st.dictionaries(st.text(), values, max_size=2),
    ends=st.dictionaries(st.text(), ends, max_size=1),
)


@settings(max_examples=30, deadline=None)
@given(any_episode)
def test_json_round_trip(episode):
    line = to_json(episode)
    assert "\n" not in line and line.isascii()
    assert same(from_json(line), episode)


@pytest.mark.parametrize(
    "value",
    [
        {"__numpy__": "tuple", "data": [1]},
        {"__numpy__": "mapping", "data": [[1, 2]]},
        {"__numpy__": "array"},
        {("a", 1): {2: (3,)}},
    ],
)
def test_json_round_trip_of_reserved_names(value):
    episode = Episode("g", 0, {}, (), extra={"value": value})
    assert same(from_json(to_json(episode)), episode)


def step(agent, reward, text=None):
    return AgentStep(agent, np.zeros(2, np.float32), Decision(action=1, text=text), reward)


def an_episode(seed=1, text="compete"):
    turns = ((step("a", 1.0, text), step("b", 2.0)), (step("b", 0.25),))
    return Episode("game_v0", seed, {"a": "model_0", "b": "other"}, turns)


def test_steps_and_returns_by_agent():
    episode = an_episode()
    assert [s.reward for s in episode.steps_of("b")] == [2.0, 0.25]
    assert episode.returns() == {"a": 1.0, "b": 2.25}


def test_files_keep_the_order_of_episodes(tmp_path):
    path = tmp_path / "new" / "folder" / "episodes.jsonl"
    written = [an_episode(1), an_episode(2, "zwei\n\u2028 \U0001f600 \ud800"), an_episode(3)]
    write_jsonl(path, iter(written))
    assert list(map(same, read_jsonl(path), written)) == [True] * 3
    with path.open("a") as file:
        file.write("\n  \n")
    assert len(list(read_jsonl(path))) == 3


def test_a_failed_write_keeps_the_old_file(tmp_path):
    path = tmp_path / "episodes.jsonl"
    write_jsonl(path, [an_episode(1)])

    def broken():
        yield an_episode(2)
        raise OSError("the disk is full")

    with pytest.raises(OSError, match="full"):
        write_jsonl(path, broken())
    assert [episode.seed for episode in read_jsonl(path)] == [1]


@pytest.mark.parametrize("version", [0, 3, "4", None])
def test_another_schema_version_is_rejected(version):
    record = json.loads(to_json(an_episode()))
    record["schema_version"] = version
    with pytest.raises(EpisodeError, match="schema_version must be 4"):
        from_json(json.dumps(record))


@pytest.mark.parametrize("line", ["", "{", "[1]", "3", "null", '"text"', '{"schema_version": 4}'])
def test_other_json_is_rejected(line):
    with pytest.raises(EpisodeError):
        from_json(line)


@pytest.mark.parametrize(
    "place, value",
    [
        (("turns",), 3),
        (("turns", 0, 0), "x"),
        (("turns", 0, 0, "decision", "tokens"), {"prompt_ids": 3}),
        (("turns", 0, 0, "messages"), [["only one"]]),
        (("turns", 0, 0, "observation", "shape"), [7]),
        (("turns", 0, 0, "observation", "data"), ["x", "y"]),
        (("made_as",), {"name": 3, "options": {}}),
        (("made_as",), {"name": "maze_v0", "options": 3}),
    ],
)
def test_a_damaged_record_is_rejected(place, value):
    record = json.loads(to_json(an_episode()))
    *path, last = place
    inner = record
    for key in path:
        inner = inner[key]
    inner[last] = value
    with pytest.raises(EpisodeError) as error:
        from_json(json.dumps(record))
    assert "\n" not in str(error.value)


def test_the_damaged_line_is_named(tmp_path):
    path = tmp_path / "episodes.jsonl"
    write_jsonl(path, [an_episode(1), an_episode(2)])
    path.write_bytes(path.read_bytes()[:-20])
    read = read_jsonl(path)
    assert next(read).seed == 1
    with pytest.raises(EpisodeError, match=r"episodes\.jsonl, line 2"):
        next(read)
