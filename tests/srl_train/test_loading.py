"""Loading of models: settings, model objects, tokenizers without a template and GGUF files."""

import ast
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

from srl_agents.errors import BackendError
from srl_agents.llm.backends.huggingface import backend as huggingface
from srl_agents.llm.backends.huggingface.loading import source_of
from srl_agents.llm.chat_format import TEMPLATES
from srl_extensions.export.command import export
from srl_train.adapters import adapter_tokenizer
from srl_train.build import build_run
from srl_train.config.yaml_file import from_tree
from srl_train.errors import ConfigError
from srl_train.loading import load_backend, with_model_objects
from srl_train.player_names import Loading, base_named, parse_player
from srl_train.trainer import Trainer

CHATTY = "{% if add_generation_prompt and not brief %}{{ 'at length: ' }}{% endif %}"


def test_attention_and_template_arguments_reach_all_models(short_run, tiny_folder, tmp_path):
    base = tmp_path / "base"
    AutoModelForCausalLM.from_pretrained(tiny_folder).save_pretrained(base)
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    tokenizer.chat_template += CHATTY
    tokenizer.save_pretrained(base)
    run = build_run(
        short_run(
            models__base=str(base),
            models__adapters={"rank": 2},
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


@pytest.mark.parametrize(
    ("file", "load"),
    [("config.json", load_model), ("tokenizer_config.json", adapter_tokenizer)],
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
    root = Path(__file__).parents[2]
    missing = []
    for part in ("srl_envs", "srl_agents", "srl_train", "core_srl", "compat", "benchmarks",
                 "examples"):  # fmt: skip
        for file in (root / part).rglob("*.py"):
            text = file.read_text(encoding="utf-8")
            tree = ast.parse(text if ".from_pretrained" in text else "")
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and ast.unparse(node.func).endswith(
                    ".from_pretrained"
                ):
                    given = {word.arg: ast.unparse(word.value) for word in node.keywords}
                    if given.get("trust_remote_code") != "False":
                        missing.append(f"{file.relative_to(root)}:{node.lineno}")
    assert not missing, missing


pytestmark = pytest.mark.usefixtures("one_model")

SMALL = {
    "environment": {"name": "coop_compete_pair_v0", "options": {"max_cycles": 2}},
    "models": {"count": 2},
    "rollout": {"group_size": 8, "groups_per_round": 1},
    "logging": {"evaluation_episodes": 0},
    "rounds": 1,
}


def loaded(folder):
    return AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)


def test_a_model_object_is_trained_in_place(tiny_folder, tmp_path):
    model, tokenizer = loaded(tiny_folder)
    before = {name: one.detach().clone() for name, one in model.named_parameters()}
    models = {**SMALL["models"], "base": [tiny_folder, "tiny"]}
    config = from_tree({**SMALL, "models": models, "algorithm": {"learning_rate": 0.1}})
    with Trainer(config, tmp_path, models={"model_0": (model, tokenizer)}) as trainer:
        trainer.fit()
        assert next(iter(trainer.run.players.modules.values())) is model
    after = dict(model.named_parameters())
    assert any(not torch.equal(before[name], after[name]) for name in before)
    saved, _ = loaded(tmp_path / "models" / "model_0")
    assert all(torch.equal(one, after[name]) for name, one in saved.named_parameters())


def an_object(dtype=torch.float32, source="somewhere"):
    return SimpleNamespace(dtype=dtype, config=SimpleNamespace(_name_or_path=source)), None


SHARED = an_object()


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"model_7": an_object()}, "model_7"),
        ({"model_0": SHARED, "model_1": SHARED}, "same object"),
        ({"model_0": an_object(source="")}, "save_pretrained"),
        ({"model_0": an_object(torch.float16)}, "float16"),
    ],
    ids=["unknown", "twice", "from nowhere", "float16"],
)
def test_objects_that_cannot_be_trained_are_refused(given, message):
    with pytest.raises(ConfigError, match=message):
        with_model_objects(from_tree(SMALL), given)


@pytest.fixture
def bare(tiny_folder, tmp_path):
    """The folder of a model whose tokenizer has no chat template."""
    base = tmp_path / "base"
    AutoModelForCausalLM.from_pretrained(tiny_folder).save_pretrained(base)
    tokenizer = AutoTokenizer.from_pretrained(tiny_folder)
    tokenizer.chat_template = None
    tokenizer.save_pretrained(base)
    return str(base)


def no_game():
    raise AssertionError("only the embedded model needs a game")


def test_saved_models_contain_the_chat_template_of_the_run(bare, short_run, tmp_path):
    config = short_run(
        models__base=bare,
        models__chat_template="plain",
        models__adapters={"rank": 2},
        models__count=1,
        models__frozen_models={"old": bare},
        seats={"agent_1": "old", "agent_0": "model_0"},
        rounds=1,
    )
    with Trainer(config, tmp_path / "run") as trainer:
        trainer.fit()
    with pytest.raises(BackendError, match=r"set models\.chat_template"):
        load_backend(bare, no_game, Loading("cpu"))
    trained = load_backend(str(tmp_path / "run/models/model_0"), no_game, Loading("cpu"))
    assert trained.tokenizer.chat_template == TEMPLATES["plain"]
    named = parse_player(str(tmp_path / "run"))
    export(named, "model_0", tmp_path / "whole", merge=True)
    whole = AutoTokenizer.from_pretrained(tmp_path / "whole")
    assert whole.chat_template.strip() == TEMPLATES["plain"].strip()


def write_gguf(file):
    """A llama of one layer and 31 kB with a vocabulary of bytes, by the format's own writer."""
    import gguf

    writer = gguf.GGUFWriter(file, "llama")
    tokens = [*bytes_to_unicode().values(), "<|end|>", "ab"]
    kinds = [gguf.TokenType.NORMAL] * 256 + [gguf.TokenType.CONTROL, gguf.TokenType.NORMAL]
    shapes = {"token_embd": (258, 16), "output_norm": (16,), "blk.0.attn_norm": (16,),
              "blk.0.attn_q": (16, 16), "blk.0.attn_k": (8, 16), "blk.0.attn_v": (8, 16),
              "blk.0.attn_output": (16, 16), "blk.0.ffn_norm": (16,), "blk.0.ffn_gate": (32, 16),
              "blk.0.ffn_up": (32, 16), "blk.0.ffn_down": (16, 32)}  # fmt: skip
    writer.add_context_length(1024)
    writer.add_embedding_length(16)
    writer.add_block_count(1)
    writer.add_feed_forward_length(32)
    writer.add_head_count(2)
    writer.add_head_count_kv(1)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(8)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_token_list(tokens)
    writer.add_token_types(kinds)
    writer.add_token_merges(["a b"])
    writer.add_eos_token_id(256)
    rng = np.random.default_rng(0)
    weights = {name: rng.normal(scale=0.1, size=shape) for name, shape in shapes.items()}
    for name, weight in weights.items():
        writer.add_tensor(f"{name}.weight", weight.astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return weights


def test_a_run_trains_a_gguf_file(short_run, tmp_path):
    file = tmp_path / "small.gguf"
    weights = write_gguf(file)
    config = short_run(
        models__base=str(file),
        models__chat_template="plain",
        models__adapters={"rank": 2},
        models__constrained=True,
        rounds=1,
    )
    with Trainer(config, tmp_path / "run") as trainer:
        trainer.fit()
    trained = load_backend(str(tmp_path / "run/models/model_0"), no_game, Loading("cpu"))
    assert trained.tokenizer("ab<|end|>").input_ids == [257, 256]
    embedded = trained.model.get_input_embeddings().weight.detach()
    assert np.allclose(embedded, weights["token_embd"])


def test_a_gguf_file_is_a_model_by_its_path(tmp_path, monkeypatch):
    (tmp_path / "small.gguf").write_bytes(b"GGUF")
    monkeypatch.chdir(tmp_path)
    named = parse_player("small.gguf")
    assert (named.kind, named.sources) == ("folder", {"small": "small.gguf"})
    assert base_named("models.base", "small.gguf") == str(tmp_path / "small.gguf")
    assert source_of("small.gguf") == (str(tmp_path), {"gguf_file": "small.gguf"})
    with pytest.raises(ConfigError, match=r"unknown player 'small\.gguf:model_3'"):
        parse_player("small.gguf:model_3")
