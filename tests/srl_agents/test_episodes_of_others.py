"""Records from untrusted sources raise EpisodeError only."""

import contextlib
import copy
import json
import random
import tracemalloc

import numpy as np
import pytest

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
)
from srl_agents.errors import EpisodeError
from srl_agents.evaluation.replay import remade, replay
from srl_agents.rollout import play
from srl_agents.scripted import Always
from srl_envs import registry
from srl_envs.errors import EnvError

ODD = [
    None, True, -1, 0, 1, 10**400, 1e308, -0.5, "", "x", "\x1b[2J", "<U100000000", "|O", "<f2",
    "<M8[ns]", "nan", [], [[]], [1], ["a", "b"], {}, {"a": 1}, float("nan"), float("inf"),
    {"__numpy__": "array", "dtype": "<U100000000", "shape": [1], "data": ["a"]},
    {"__numpy__": "array", "dtype": "<f8", "shape": [0, 10**12], "data": []},
    {"__numpy__": "array", "dtype": "<f8", "shape": [-1], "data": [1]},
    {"__numpy__": "array", "dtype": "<i8", "shape": [1], "data": [10**30]},
    {"__numpy__": "scalar", "dtype": "|V1000000000", "data": 0},
    {"__numpy__": "scalar", "dtype": "<f8", "data": 10**400},
    {"__numpy__": "mapping", "data": [[[1], 2]]},
    {"__numpy__": "tuple", "data": 3},
]  # fmt: skip


def played():
    env = registry.make("coop_compete_pair_v0", max_cycles=3, obs_mode="llm")
    seats = dict.fromkeys(env.possible_agents, Always(1))
    return play(env, seats, seed=3)


def written():
    """Return an episode with a value in every field."""
    tokens = Tokens((1, 2), (3,), (-0.5,), ModelVersion("model_0", 1, "a5"), ((3, 4),))
    step = AgentStep(
        "agent_0", {"observation": np.zeros(2, np.float32), "text": "go"},
        Decision(np.int64(1), "go", tokens, -0.5, None), 0.5, {"a": (1, 2)}, (("agent_1", "hm"),),
    )  # fmt: skip
    return Episode(
        "coop_compete_v0", 3, {"agent_0": "model_0"}, ((step,), (step,)), None,
        {"group": 1, 2: "x"}, (np.ones(3, np.float32),),
        {"name": "coop_compete_v0", "options": {"num_agents": 1}}, {"episode": 4},
        {"agent_0": End(True, np.zeros(2, np.float32), (7, 8), np.ones(3, np.float32))},
    )  # fmt: skip


def places(value, path=()):
    yield path
    if isinstance(value, list):
        value = dict(enumerate(value))
    if isinstance(value, dict):
        for key, entry in value.items():
            yield from places(entry, (*path, key))


def changed(record, rng):
    """Return the record with up to three values replaced or deleted."""
    record = json.loads(json.dumps(record))
    for _ in range(rng.randint(1, 3)):
        *path, last = rng.choice([path for path in places(record) if path])
        place = record
        for key in path:
            place = place[key]
        if rng.random() < 0.15:
            del place[last]
        else:
            place[last] = copy.deepcopy(rng.choice(ODD))
    return json.dumps(record)


def test_mutated_lines_raise_only_episode_errors():
    rng, record, read = random.Random(0), json.loads(to_json(written())), 0
    for _ in range(300):
        line = changed(record, rng)
        try:
            episode = from_json(line)
        except EpisodeError:
            continue
        read += 1
        episode.returns()
        assert to_json(from_json(to_json(episode))) == to_json(episode)
    assert read > 5  # so that not everything is refused for one reason


def test_mutated_records_are_replayed_or_rejected():
    rng, record, same = random.Random(1), json.loads(to_json(played())), 0
    for _ in range(150):
        try:
            episode = from_json(changed(record, rng))
            list(replay(episode, remade(episode, render_mode=None)))
        except (EpisodeError, EnvError):
            continue
        same += 1
    assert same > 1


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '{"schema_version": 4, "seed": ' + "[" * 1000 + "]" * 1000 + "}",
        '{"schema_version": ' + "9" * 5000 + "}",
        '{"schema_version": 1e999}',
        "\ud800",
        '"' + "x" * 100,
    ],
)
def test_invalid_json_raises_episode_error(text):
    with pytest.raises(EpisodeError):
        from_json(text)


@pytest.mark.parametrize("entry", ODD[-8:-4])
def test_a_short_line_takes_little_memory(entry):
    record = json.loads(to_json(written())) | {"extra": {"a": entry}}
    line = json.dumps(record)
    tracemalloc.start()
    with contextlib.suppress(EpisodeError):
        from_json(line)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most < 2**20


def test_an_endless_line_is_not_read_completely(tmp_path, monkeypatch):
    monkeypatch.setattr("srl_agents.episode.MAX_BYTES", 1000)
    (tmp_path / "long.jsonl").write_text('{"a": "' + "x" * 10_000)
    with pytest.raises(EpisodeError, match="line 1: an episode must be a line of JSON"):
        list(read_jsonl(tmp_path / "long.jsonl"))
