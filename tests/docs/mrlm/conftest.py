"""A small model in the place of the documented ones."""

import json
import shutil
from pathlib import Path

import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer

NAMES = ("Qwen/Qwen2.5-1.5B-Instruct", "Qwen/Qwen2.5-1.5B", "Qwen/Qwen2.5-0.5B-Instruct")
SOURCES = Path(__file__).parents[3] / "compat" / "mrlm"
collect_ignore_glob = [] if SOURCES.is_dir() else ["test_*.py"]  # in a source distribution


@pytest.fixture(scope="session")
def terse_folder(tiny_folder, tmp_path_factory):
    """The embedded model, ending its answers after a few tokens: every third token is an end."""
    folder = tmp_path_factory.mktemp("models") / "terse"
    shutil.copytree(tiny_folder, folder)
    size = json.loads((folder / "config.json").read_text())["vocab_size"]
    path = folder / "generation_config.json"
    settings = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**settings, "eos_token_id": [*range(0, size, 3)]}))
    return str(folder)


@pytest.fixture
def workplace(tmp_path, monkeypatch, terse_folder):
    """Working directory in which the documented hub names map to a folder of a small model."""
    monkeypatch.setenv("CORE_SRL_MODELS", ",".join(f"{name}={terse_folder}" for name in NAMES))
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def policy(terse_folder):
    """A policy in SERVER mode."""
    from mrlm.core import EnvironmentMode, LLMEnvironment

    return LLMEnvironment(
        AutoModelForCausalLM.from_pretrained(terse_folder),
        AutoTokenizer.from_pretrained(terse_folder),
        mode=EnvironmentMode.SERVER,
    )
