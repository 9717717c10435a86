"""How models are loaded, as a configuration says."""

import ast
import itertools
import json
import shutil
from pathlib import Path
from unittest.mock import Mock

import pytest
from transformers import AutoTokenizer

from core_srl import servers
from srl_agents.errors import BackendError
from srl_agents.llm.backends.huggingface import backend as huggingface
from srl_agents.llm.backends.huggingface import loading as sources
from srl_train.adapters import own_tokenizer
from srl_train.build import build_run

CHATTY = "{% if add_generation_prompt and not brief %}{{ 'at length: ' }}{% endif %}"


@pytest.mark.parametrize("adapters", [None, {"rank": 2}])
def test_attention_and_what_templates_are_told_reach_every_model(
    adapters, short_run, tiny_folder, tmp_path
):
    from transformers import AutoModelForCausalLM

    base = tmp_path / "base"
    AutoModelForCausalLM.from_pretrained(tiny_folder).save_pretrained(base)
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    tokenizer.chat_template += CHATTY
    tokenizer.save_pretrained(base)
    run = build_run(
        short_run(
            models__base=str(base),
            models__adapters=adapters,
            models__frozen_models={"old": str(base)},
            seats={"agent_1": "old", "agent_0": "model_0"},
            models__count=1,
            models__attn_implementation="eager",
            models__chat_template_kwargs={"brief": True},
        )
    )
    for backend in run.players.backends.values():
        assert backend.model.config._attn_implementation == "eager"
        assert "at length" not in backend.chat.render([("user", "hello")])


def test_a_revision_is_asked_of_the_hub_and_folders_may_have_such_names(tmp_path, monkeypatch):
    asked = []

    def from_pretrained(name, **how):
        asked.append((name, how.get("revision")))
        raise OSError("asked enough")

    monkeypatch.setattr(huggingface.AutoTokenizer, "from_pretrained", from_pretrained)
    monkeypatch.setattr(sources, "get_session", Mock)  # the hub is there
    folder = tmp_path / "run@home"
    folder.mkdir()
    for name in ("me/model@v1.0", "me/model", str(folder)):
        with pytest.raises(huggingface.BackendError):
            huggingface.HuggingFaceBackend.load(name, device="cpu")
    assert asked == [("me/model", "v1.0"), ("me/model", None), (str(folder), None)]


CODE = {
    "config.json": {
        "model_type": "unknown",
        "auto_map": {"AutoConfig": "code.Config", "AutoModelForCausalLM": "code.Model"},
    },
    "tokenizer_config.json": {
        "tokenizer_class": "Unknown",
        "auto_map": {"AutoTokenizer": ["code.Tokenizer", None]},
    },
}


def load_model(folder):
    huggingface.HuggingFaceBackend.load(folder, device="cpu")


def load_for_servers(folder):
    servers.read_facts(str(folder))


@pytest.mark.parametrize(
    ("file", "load"),
    [*itertools.product(CODE, (load_model, load_for_servers)), (list(CODE)[1], own_tokenizer)],
)
def test_code_in_a_model_folder_is_refused_without_a_question(
    file, load, tiny_folder, tmp_path, monkeypatch
):
    folder, ran = tmp_path / "model", tmp_path / "ran"
    shutil.copytree(tiny_folder, folder)
    settings = json.loads((folder / file).read_text())
    (folder / file).write_text(json.dumps(settings | CODE[file]))
    (folder / "code.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    monkeypatch.setattr("builtins.input", lambda *_: "y")
    with pytest.raises(BackendError, match=r"Python code .* never run"):
        load(folder)
    assert not ran.exists()


def test_every_from_pretrained_refuses_remote_code():
    root = Path(__file__).parents[3]
    missing = []
    for part in ("srl_envs", "srl_agents", "srl_train", "core_srl", "compat", "benchmarks",
                 "examples"):  # fmt: skip
        for file in (root / part).rglob("*.py"):
            for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
                if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
                    ".from_pretrained"
                ):
                    given = {word.arg: ast.unparse(word.value) for word in node.keywords}
                    if given.get("trust_remote_code") != "False":
                        missing.append(f"{file.relative_to(root)}:{node.lineno}")
    assert not missing, missing
