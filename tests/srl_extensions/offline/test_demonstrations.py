"""Demonstrations: tokens and masks of recorded episodes."""

import dataclasses
import json

import pytest

from srl_agents.episode import Decision, to_json, write_jsonl
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.rollout import play_many
from srl_agents.scripted.memory_one import Always
from srl_envs import coop_compete_v0
from srl_extensions.offline.data import (
    KEPT,
    best_of,
    conversation,
    demonstration,
    parts_of,
    read_episodes,
)
from srl_train.errors import DataError
from srl_train.plan import InWords

SEATS = ("agent_0", "agent_1")


def make_env():
    return coop_compete_v0.parallel_env(variant="pair", max_cycles=3)


@pytest.fixture(scope="module")
def backend(tiny_folder):
    return HuggingFaceBackend.load(tiny_folder)


@pytest.fixture(scope="module")
def view():
    return make_env().unwrapped.text_view


@pytest.fixture(scope="module")
def played(backend, view):
    """Four games of the model; hot enough that some answers cannot be read."""
    policy = TextPolicy(backend, view, sampling=Sampling(temperature=2.0, max_new_tokens=4))
    return play_many(make_env, dict.fromkeys(SEATS, policy), [1, 2, 3, 4])


def scripted(action, seeds=(5,), view_=None):
    policy = Always(action) if view_ is None else InWords(Always(action), view_)
    return play_many(make_env, dict.fromkeys(SEATS, policy), seeds)


def test_recorded_tokens_are_used_as_sampled(played, backend, view):
    failures = 0
    for episode in played:
        for seat in SEATS:
            steps = episode.steps_of(seat)
            tokens = [step.decision.tokens for step in steps]
            expected = [(one.prompt_ids, one.completion_ids) for one in tokens]
            assert conversation(steps, view, backend.chat) == expected
            failures += sum(step.decision.parse_failure is not None for step in steps)
    assert failures  # or unread answers were not tested


def test_tokens_of_another_tokenizer_are_tokenized_again(played, backend, view):
    [step, *rest] = played[0].steps_of("agent_0")
    tokens = dataclasses.replace(
        step.decision.tokens, prompt_ids=tuple(i + 1 for i in step.decision.tokens.prompt_ids)
    )
    readable = Decision(1, "cooperate", tokens)
    steps = [dataclasses.replace(step, decision=readable), *rest]
    rewritten = conversation(steps, view, backend.chat)
    chat = backend.chat
    assert rewritten[0] == (
        played[0].steps_of("agent_0")[0].decision.tokens.prompt_ids,
        (*chat.answer("cooperate"), chat.end_of_turn),
    )


def test_masks_of_a_conversation(backend, view):
    [episode] = scripted(1)
    one = demonstration(episode, "agent_0", view, backend.chat)
    chat = backend.chat
    answer = (*chat.answer("cooperate"), chat.end_of_turn)
    spans = conversation(episode.steps_of("agent_0"), view, chat)
    assert one.input_ids == tuple(t for told, said in spans for t in (*told, *said))
    assert len(one.input_ids) == len(one.answers) == len(one.observations)
    taught = [t for t, own in zip(one.input_ids, one.answers, strict=True) if own]
    assert tuple(taught) == answer * 3
    told = [t for t, own in zip(one.input_ids, one.observations, strict=True) if own]
    assert told == [t for prompt, _ in spans[1:] for t in prompt]  # not the rules


def test_parse_failures_are_imitated_only_if_enabled(backend, view):
    [episode] = scripted(1)
    first, *others = episode.turns
    unread = dataclasses.replace(
        first[0], decision=Decision(0, "hm", parse_failure="no choice was named")
    )
    episode = dataclasses.replace(episode, turns=((unread, first[1]), *others))
    strict = demonstration(episode, "agent_0", view, backend.chat)
    loose = demonstration(episode, "agent_0", view, backend.chat, drop_parse_failures=False)
    assert strict.input_ids == loose.input_ids
    more = sum(loose.answers) - sum(strict.answers)
    assert more == len(backend.chat.answer("hm")) + 1
    # The next prompt reports the failure as in a rollout.
    text = backend.tokenizer.decode(strict.input_ids)
    assert "Your last answer was not read: no choice was named. So compete was played." in text


def test_parts_and_best_fraction():
    episodes = scripted(1, seeds=(1, 2, 3)) + scripted(0, seeds=(4,))
    parts = parts_of(episodes)
    assert parts == [(index, seat) for index in range(4) for seat in SEATS]
    assert parts_of(episodes, ["agent_1"]) == [(index, "agent_1") for index in range(4)]
    marked = [dataclasses.replace(episodes[0], extra={KEPT: ["agent_0"]}), *episodes[1:]]
    assert (0, "agent_1") not in parts_of(marked) and (0, "agent_0") in parts_of(marked)

    worth = {1: 3.0, 2: 1.0, 3: 3.0, 4: 2.0}  # by seed

    def returns(episode):
        return {"agent_0": worth[episode.seed], "agent_1": 0.0}

    assert best_of(parts, episodes, returns, min_return=1.5) == [
        (index, "agent_0") for index in (0, 2, 3)
    ]
    assert best_of(parts, episodes, returns) == parts
    assert best_of(parts, episodes, returns, min_return=9.0) == []
    with pytest.raises(DataError, match="the only one of its start and agent"):
        best_of(parts, episodes, returns, top_fraction=0.5)


def test_failed_episodes_of_a_file_are_skipped(tmp_path):
    good = scripted(1, seeds=(1, 2))
    bad = dataclasses.replace(good[0], failure="BackendError: gone")
    path = tmp_path / "games.jsonl"
    write_jsonl(path, [good[0], bad, good[1]])
    assert [e.seed for e in read_episodes(path, "coop_compete_v0", SEATS)] == [1, 2]


@pytest.mark.parametrize(
    "line, says",
    [
        ("{", "line 2: an episode must be a line of JSON"),
        (json.dumps({"schema_version": 99}), "line 2: schema_version must be 4, got 99"),
        ("team", "line 2: the episode must be of coop_compete_v0 with agent_0, agent_1, got team"),
        ("seats", "got coop_compete_v0 with agent_0"),
    ],
)
def test_error_names_an_invalid_line(line, says, tmp_path):
    [good] = scripted(1)
    special = {
        "team": dataclasses.replace(good, environment="team_battle_v0"),
        "seats": dataclasses.replace(good, seats={"agent_0": "x"}),
    }
    path = tmp_path / "games.jsonl"
    path.write_text(to_json(good) + "\n" + (to_json(special[line]) if line in special else line))
    with pytest.raises(DataError) as error:
        read_episodes(path, "coop_compete_v0", SEATS)
    assert says in str(error.value) and str(path) in str(error.value)
    assert "\n" not in str(error.value)
