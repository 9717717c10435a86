"""Preferences: pairs of better and worse answers to the same conversation."""

import json

import pytest

from srl_agents.episode import AgentStep, Decision, Episode
from srl_agents.llm.chat_format import ChatFormat
from srl_agents.llm.tiny import build_tokenizer, random_dialogues
from srl_envs import coop_compete_v0
from srl_extensions.offline.data import (
    parts_of,
    preferences,
    read_preferences,
)
from srl_train.errors import DataError
from srl_train.trajectory import shaped_game


def make_env():
    return coop_compete_v0.parallel_env(variant="pair", max_cycles=3)


@pytest.fixture(scope="module")
def view():
    return make_env().unwrapped.text_view


@pytest.fixture(scope="module")
def chat():
    return ChatFormat(build_tokenizer(random_dialogues(make_env, 2, 3, 0)))


START = make_env().reset(seed=0)[0]["agent_0"]


def game(seed, actions, rewards, seat="agent_0", texts=None, extra=None):
    """One seat's game in a situation that says only what this seat did before."""
    env = make_env()
    env.reset(seed=0)
    seen, turns = START, []
    for number, (action, reward) in enumerate(zip(actions, rewards, strict=True)):
        text = None if texts is None else texts[number]
        turns.append((AgentStep(seat, seen, Decision(action, text), reward),))
        seen = env.step(dict.fromkeys(env.agents, action))[0][seat]
    return Episode("coop_compete_v0", seed, {seat: "x"}, tuple(turns), extra=extra or {})


def raw(episode):
    return shaped_game(episode, tuple(episode.seats), lambda rewards: rewards, 0.0)


def found(episodes, view, chat, **settings):
    pairs = preferences(parts_of(episodes), episodes, view, chat, raw, **settings)
    return [
        (chat.text(pair.chosen_ids), chat.text(pair.rejected_ids), len(pair.prompt_ids))
        for pair in pairs
    ]


def test_better_answer_of_a_group_is_chosen(view, chat):
    group = [game(1, [1], [0.5]), game(1, [0], [0.2])]
    [(chosen, rejected, _)] = found(group, view, chat)
    assert (chosen, rejected) == ("cooperate", "compete")
    assert found(group, view, chat, min_return_gap=0.29) and not found(
        group, view, chat, min_return_gap=0.31
    )


def test_answer_value_is_its_mean_over_the_group(view, chat):
    # cooperate: (0.9 + 0.0) / 2; compete: 0.5: the single best game does not decide.
    group = [game(1, [1], [0.9]), game(1, [1], [0.0]), game(1, [0], [0.5])]
    assert [pair[:2] for pair in found(group, view, chat)] == [("compete", "cooperate")]


def test_equal_answers_or_values_give_no_pair(view, chat):
    assert not found([game(1, [1], [0.5]), game(1, [1], [0.2])], view, chat)
    assert not found([game(1, [1], [0.5]), game(1, [0], [0.5])], view, chat)


def test_answers_of_other_seeds_and_agents_are_not_compared(view, chat):
    assert not found([game(1, [1], [0.5]), game(2, [0], [0.2])], view, chat)
    other = game(1, [0], [0.2], seat="agent_1")
    assert not found([game(1, [1], [0.5]), other], view, chat)


def test_later_answers_are_compared_only_after_equal_conversations(view, chat):
    # The first two agree at first and then part; the third has gone another way before.
    group = [game(1, [1, 1], [0.1, 0.9]), game(1, [1, 0], [0.4, 0.2]), game(1, [0, 0], [0.0, 0.1])]
    first, second = sorted(found(group, view, chat), key=lambda pair: pair[2])
    # First turn: cooperate is worth (1.0 + 0.6) / 2, compete 0.1.
    assert first[:2] == ("cooperate", "compete")
    # Second turn: only what came from there on counts, 0.9 against 0.2.
    assert second[:2] == ("cooperate", "compete")
    assert second[2] > first[2]
    late = [game(1, [1, 1], [0.9, 0.1]), game(1, [1, 0], [0.1, 0.2])]
    assert [pair[:2] for pair in found(late, view, chat)] == [("compete", "cooperate")]


TEXT = {"prompt": "2 + 2 =", "chosen": " 4", "rejected": " 5"}
TALK = {
    "prompt": [{"role": "user", "content": "2 + 2?"}],
    "chosen": [{"role": "assistant", "content": "4"}],
    "rejected": [{"role": "assistant", "content": "5"}],
}


@pytest.mark.parametrize("row", [TEXT, TALK], ids=["standard", "conversational"])
def test_files_in_trls_formats(row, tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps(row) + "\n\n" + json.dumps({**row, "score": 1}) + "\n")
    assert read_preferences(path) == [row, row]


@pytest.mark.parametrize(
    "line, says",
    [
        ("{", "Invalid JSON"),
        (json.dumps({"prompt": "2 + 2 =", "chosen": " 4"}), "'rejected'"),
        (json.dumps({**TEXT, "chosen": 4}), "'chosen'"),
    ],
)
def test_error_names_an_invalid_line(line, says, tmp_path):
    path = tmp_path / "pairs.jsonl"
    path.write_text(json.dumps(TEXT) + "\n" + line + "\n")
    with pytest.raises(DataError) as error:
        read_preferences(path)
    assert f"{path}, line 2: " in str(error.value) and says in str(error.value)
    assert "\n" not in str(error.value)
