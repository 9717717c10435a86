"""Games as plain chats, and chats as something to learn from."""

import json

import pytest

from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_envs import coop_compete_v0
from srl_extensions.offline.collect import play_games, scripted_player
from srl_extensions.offline.data import chat_lines, demonstration, lesson, read_chats
from srl_train.cli import main
from srl_train.errors import DataError
from srl_train.trainer import Trainer

CHAT = [
    {"role": "user", "content": "your choice?"},
    {"role": "assistant", "content": "cooperate"},
    {"role": "user", "content": "and now?"},
    {"role": "assistant", "content": "compete"},
]


def make_env():
    return coop_compete_v0.parallel_env(variant="pair", num_agents=2, max_cycles=3)


@pytest.fixture(scope="module")
def backend(tiny_folder):
    return HuggingFaceBackend.load(tiny_folder, device="cpu")


@pytest.fixture
def games():
    policies = dict.fromkeys(make_env().possible_agents, scripted_player("uniform", make_env()))
    return play_games(make_env, policies, 2, 0)


def test_a_game_as_messages_is_what_a_player_was_told(games):
    view = make_env().unwrapped.text_view
    messages = json.loads(chat_lines(games, [(0, "agent_0")], view))["messages"]
    roles = ["system", *["user", "assistant"] * 3]
    assert [message["role"] for message in messages] == roles
    assert messages[0]["content"] == view.rules("agent_0").strip()
    first = games[0].steps_of("agent_0")[0]
    assert messages[1]["content"] == view.describe("agent_0", first.observation).strip()
    assert messages[2]["content"] == first.decision.text


def test_written_and_read_again_it_teaches_the_same_tokens(games, backend, tmp_path):
    view = make_env().unwrapped.text_view
    path = tmp_path / "chats.jsonl"
    path.write_text(chat_lines(games, [(0, "agent_0"), (1, "agent_1")], view))
    first, second = (lesson(chat, backend.chat) for chat in read_chats(path))
    assert first == demonstration(games[0], "agent_0", view, backend.chat)
    assert second == demonstration(games[1], "agent_1", view, backend.chat)


def test_a_chat_without_a_system_message_is_the_templates_own(backend):
    found = lesson(CHAT, backend.chat)
    whole = backend.tokenizer.apply_chat_template(CHAT, tokenize=False)
    text = backend.tokenizer.decode(found.input_ids)
    assert whole.startswith(text) or text.startswith(whole.rstrip())
    said = [token for token, own in zip(found.input_ids, found.answers, strict=True) if own]
    closing = backend.chat.end_of_turn
    answers = [*backend.chat.answer("cooperate"), closing, *backend.chat.answer("compete"), closing]
    assert said == answers


def test_collect_writes_messages_and_sft_learns_from_them(short_run, tmp_path, capsys):
    out = tmp_path / "chats.jsonl"
    words = ["collect", "--environment", "coop_compete_pair_v0", "--set",
             "environment.options.max_cycles=2", "--players", "always_cooperate", "--episodes", "4",
             "--format", "messages", "--out", str(out)]  # fmt: skip
    assert main(words) == 0
    assert len(out.read_text().splitlines()) == 8  # a part a line
    config = short_run(sft={"data": [str(out)], "epochs": 2, "batch_size": 4}, rounds=0)
    results = Trainer(config, tmp_path / "run").fit()
    [stage] = results["stages"]
    for model in stage["models"].values():
        assert model["samples"] == 8
        assert model["last_loss"] < model["first_loss"]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ('{"messages": []}', "must be an episode"),
        ('{"prompt": "hi", "completion": "ho"}', "must be an episode"),
        ('{"messages": [{"role": "user"}]}', "must be an episode"),
        ('{"messages": [{"role": "assistant", "content": "hi"}]}', "roles must be"),
        ('{"messages": [{"role": "user", "content": "hi"}]}', "roles must be"),
        ("{", "line 1: not JSON"),
    ],
)
def test_what_is_no_chat_is_refused_with_its_line(line, what, tmp_path):
    path = tmp_path / "chats.jsonl"
    path.write_text(line + "\n")
    with pytest.raises(DataError, match="line 1") as error:
        read_chats(path)
    assert what in str(error.value)
