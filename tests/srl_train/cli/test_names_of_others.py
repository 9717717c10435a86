"""Commands escape control characters in names that they print."""

import re
import shutil

import pytest

from srl_train import cli

HOSTILE = "m\x1b[2J\x07\x9b31m\u202ex"
STEERS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]")


@pytest.fixture(scope="module")
def model(tiny_folder, tmp_path_factory):
    """Return a model folder whose name contains control characters."""
    folder = tmp_path_factory.mktemp("models") / HOSTILE
    shutil.copytree(tiny_folder, folder)
    return str(folder)


@pytest.mark.parametrize(
    "words",
    [
        "eval --policy MODEL --scenario coop_compete_pair_v0.pavlov --episodes 2",
        "collect --environment coop_compete_pair_v0 --players MODEL --episodes 2 "
        "--set environment.options.max_cycles=2 --set models.sampling.max_new_tokens=2 --out OUT",
        "play coop_compete_pair_v0 --opponent MODEL --set max_cycles=1 --record OUT",
    ],
)
def test_model_names_are_escaped(words, model, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("builtins.input", lambda prompt: "cooperate")
    named = {"MODEL": model, "OUT": str(tmp_path / HOSTILE)}

    assert cli.main([named.get(word, word) for word in words.split()]) == 0

    shown = capsys.readouterr()
    assert "m\\x1b[2J\\x07\\x9b31m\\u202ex" in shown.out
    assert not STEERS.search(shown.out + shown.err)
