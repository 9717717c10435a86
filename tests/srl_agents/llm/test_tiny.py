import json
import shutil

import numpy as np
import pytest
import torch

from srl_agents.llm import tiny as tiny_model
from srl_agents.llm.sampling import Sampling
from srl_agents.llm.text_policy import TextPolicy
from srl_agents.llm.tiny import random_dialogues
from srl_agents.rollout import play_many
from srl_envs import registry
from tests.srl_agents.llm.conftest import make_env


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("CORE_SRL_CACHE", str(tmp_path))
    monkeypatch.setattr(tiny_model, "ROUNDS", 1)
    return tmp_path


def quick(**changes):
    """Return a model after a very short warm start."""
    return tiny_model.folder(make_env, **{"steps": 4, "turns": 2, **changes})


def test_answers_are_legal_and_uniform(backend):
    def make_pair():
        return registry.make("coop_compete_pair_v0", max_cycles=3)

    env = make_pair()
    policy = TextPolicy(backend, env.unwrapped.text_view, sampling=Sampling(max_new_tokens=4))
    seats = env.possible_agents
    episodes = play_many(make_pair, dict.fromkeys(seats, policy), range(200))
    steps = [step for episode in episodes for turn in episode.turns for step in turn]
    assert len(steps) == 200 * 3 * 2
    failures = [step.decision.parse_failure is not None for step in steps]
    assert np.mean(failures) < 0.005
    for seat in seats:
        first = [
            np.exp(step.decision.tokens.logprobs[0]) for step in steps
            if step.agent == seat and step.decision.action == 1
        ]  # fmt: skip
        assert 0.45 < np.mean(first) < 0.55, f"{seat} should cooperate half the time"
    late = [np.exp(s.decision.tokens.logprobs[0]) for e in episodes for s in e.turns[-1]]
    assert 0.45 < np.mean(late) < 0.55


def test_each_answer_and_each_digit_is_one_token(backend):
    view = make_env().unwrapped.text_view
    assert [len(backend.chat.answer(text)) for text in view.answers("agent_0")] == [1, 1]
    situation = "Round 1 of 8. Cooperation level 0.60, difficulty 0.30."
    pieces = [backend.tokenizer.decode([token]) for token in backend.chat.answer(situation)]
    assert [piece for piece in pieces if set(piece) & set("0123456789")] == list("18060030")


def test_equal_inputs_give_equal_weights(cache, monkeypatch):
    monkeypatch.setattr(tiny_model, "ROUNDS", 2)
    first = quick()
    weights = (first / "model.safetensors").read_bytes()
    words = (first / "tokenizer.json").read_bytes()
    shutil.rmtree(first)
    torch.manual_seed(99)  # nothing outside may matter
    again = quick()
    assert again == first
    assert (again / "model.safetensors").read_bytes() == weights
    assert (again / "tokenizer.json").read_bytes() == words


def test_other_inputs_give_another_folder(cache, monkeypatch):
    monkeypatch.setattr(tiny_model, "_build", lambda *_: (None, None))
    monkeypatch.setattr(tiny_model, "_save", lambda target, *_: target.mkdir(parents=True))
    longer = registry.make("coop_compete_v0", max_cycles=9)
    folders = {
        quick(),
        quick(seed=1),
        quick(steps=5),
        quick(turns=3),
        quick(size=tiny_model.TinySize(layers=1)),
        tiny_model.folder(lambda: longer, steps=4, turns=2),
    }
    assert len(folders) == 6
    assert quick() in folders


def test_the_folder_is_built_once_without_temporary_files(cache):
    folder = quick()
    stamp = (folder / "model.safetensors").stat().st_mtime_ns
    assert quick() == folder
    assert (folder / "model.safetensors").stat().st_mtime_ns == stamp
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_global_state_is_restored(cache, monkeypatch):
    used = []
    build = tiny_model._build
    monkeypatch.setattr(
        tiny_model, "_build", lambda *given: used.append(torch.get_num_threads()) or build(*given)
    )
    torch.manual_seed(4)
    random = torch.random.get_rng_state()
    torch.set_num_threads(2)
    try:
        quick()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)
    assert used == [1]
    assert torch.equal(torch.random.get_rng_state(), random)


def test_dialogues_contain_mistakes_messages_and_all_agents():
    dialogues = random_dialogues(make_env, games=20, turns=8, seed=0)
    lines = [line for dialogue in dialogues for line in dialogue.lines]
    assert len({dialogue.rules for dialogue in dialogues}) == 4
    assert len(lines) == 20 * 4 * 8
    assert 0.01 < np.mean([not line.readable for line in lines]) < 0.1
    assert any("says: " in line.words for line in lines)
    for dialogue in dialogues:
        for before, after in zip(dialogue.lines, dialogue.lines[1:], strict=False):
            assert after.words.startswith("Your last answer was not read") is not before.readable
    assert json.dumps([line.legal for line in lines])


@pytest.mark.parametrize(
    ("variables", "folder"),
    [
        ({"CORE_SRL_CACHE": "/x"}, "/x"),
        ({"XDG_CACHE_HOME": "/y"}, "/y/core-srl"),
        ({"HOME": "/z"}, "/z/.cache/core-srl"),
    ],
)
def test_cache_folder(monkeypatch, variables, folder):
    for name in ("CORE_SRL_CACHE", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert str(tiny_model.cache_folder()) == folder
