"""Base models: without a chat template, and in GGUF files."""

import os
import struct
import sys
import types
from pathlib import Path

import numpy as np
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer
from transformers.convert_slow_tokenizer import bytes_to_unicode

from srl_agents.errors import BackendError
from srl_agents.llm.backends.huggingface.backend import HuggingFaceBackend
from srl_agents.llm.backends.huggingface.loading import folder_of, source_of
from srl_agents.llm.chat_format import TEMPLATES
from srl_train.adapters import adapter_base
from srl_train.build import resolved
from srl_train.errors import ConfigError
from srl_train.export import export
from srl_train.loading import load_backend
from srl_train.player_names import Loading, base_named, parse_player
from srl_train.trainer import Trainer

REAL = Path(os.environ.get("CORE_SRL_GGUF", "~/.cache/core-srl/gemma-3-270m-q4_k_m.gguf"))


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


def test_what_was_trained_on_a_base_without_a_template_carries_the_runs(bare, short_run, tmp_path):
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


def write_gguf(file, leave_out=()):
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
        if name not in leave_out:
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


def test_a_file_that_lacks_weights_is_refused(tmp_path):
    file = tmp_path / "small.gguf"
    write_gguf(file, leave_out=["blk.0.attn_q"])
    with pytest.raises(BackendError, match=r"lacks 1 of its weights \(model.*q_proj\.weight\)"):
        load_backend(str(file), no_game, Loading("cpu"))


@pytest.fixture
def gguf_file(tmp_path, monkeypatch):
    file = tmp_path / "small.gguf"
    file.write_bytes(b"GGUF")
    monkeypatch.chdir(tmp_path)
    return file


def test_a_gguf_file_is_a_model_by_its_path(gguf_file):
    named = parse_player("small.gguf")
    assert (named.kind, named.sources) == ("folder", {"small": "small.gguf"})
    assert base_named("models.base", "small.gguf") == str(gguf_file)
    assert source_of("small.gguf") == (str(gguf_file.parent), {"gguf_file": "small.gguf"})
    assert adapter_base("small.gguf") is None
    with pytest.raises(BackendError, match=r"srl export small\.gguf FOLDER"):
        folder_of("small.gguf")
    with pytest.raises(ConfigError, match=r"unknown player 'small\.gguf:model_3'"):
        parse_player("small.gguf:model_3")


def test_a_gguf_file_named_in_capitals_is_to_be_renamed(gguf_file):
    gguf_file.rename("SMALL.GGUF")
    assert parse_player("SMALL.GGUF").kind == "folder"
    with pytest.raises(BackendError, match=r"SMALL\.GGUF is a GGUF file.*: name it SMALL\.gguf"):
        load_backend("SMALL.GGUF", no_game, Loading("cpu"))


def test_a_damaged_file_is_refused_in_our_own_words(gguf_file, monkeypatch):
    def damaged(*_, **__):
        raise struct.error("unpack_from requires a buffer of at least 24 bytes")

    monkeypatch.setitem(sys.modules, "gguf", types.ModuleType("gguf"))
    monkeypatch.setattr(AutoTokenizer, "from_pretrained", damaged)
    with pytest.raises(BackendError, match=r"cannot load the model .*small\.gguf.*a buffer of"):
        load_backend(str(gguf_file), no_game, Loading("cpu"))


def test_a_templates_file_is_found_from_wherever_a_run_goes_on(short_run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    own = resolved(short_run(models__chat_template="own.jinja"))
    assert own.models.chat_template == str(tmp_path / "own.jinja")
    named = resolved(short_run(models__chat_template="plain"))
    assert named.models.chat_template == "plain"


def test_a_gguf_file_without_the_package_that_reads_it(gguf_file, monkeypatch):
    monkeypatch.setitem(sys.modules, "gguf", None)
    with pytest.raises(
        ImportError, match=r'a GGUF file needs gguf: pip install "core-srl\[gguf\]"'
    ):
        load_backend(str(gguf_file), no_game, Loading("cpu"))


@pytest.mark.slow
def test_the_real_model_is_trained_from_its_file():
    """Set CORE_SRL_GGUF to the file, which `make real-model` does not keep."""
    pytest.importorskip("gguf")
    file = REAL.expanduser()
    if not file.is_file():
        pytest.skip(f"there is no {file}")
    backend = HuggingFaceBackend.load(file, dtype="bfloat16", chat_template="plain")
    assert backend.model.name_or_path == str(file)
    assert all(parameter.requires_grad for parameter in backend.model.parameters())
    ids = backend.tokenizer("To be, or not to", return_tensors="pt").input_ids
    [said] = backend.model.generate(ids, max_new_tokens=1, do_sample=False)
    assert backend.tokenizer.decode(said[-1:]).strip() == "be"
