"""A sampling backend in one file, listed in one table, in every place that names a player."""

import json

import pytest

from srl_agents.errors import BackendError
from srl_agents.llm.backends.registry import BACKENDS, api_model, is_api_name
from srl_envs.tables import Plugin
from srl_train import cli
from srl_train.build import build_run
from srl_train.config import yaml_file
from srl_train.errors import ConfigError
from srl_train.round import train_round

GAME = "coop_compete_pair_v0"


@pytest.fixture(autouse=True)
def listed(monkeypatch):
    own = {"echo": Plugin("tests.srl_train.echo_backend")}
    monkeypatch.setattr(BACKENDS, "_own", BACKENDS._own | own)
    monkeypatch.setattr(BACKENDS, "_all", BACKENDS._all | own)


def test_a_custom_backend_plays_in_a_run(short_run):
    run = build_run(short_run(models__count=1, seats={"agent_1": "echo:compete"}))
    result = train_round(run, 0)
    said = {one.decision.text for e in result.episodes for one in e.steps_of("agent_1")}
    assert said == {"compete"}


def test_a_custom_backend_samples_for_a_model_in_training(short_run):
    config = short_run(
        models__count=1, backend={"name": "echo", "words": "compete"}, seats={"agent_1": "uniform"}
    )
    assert yaml_file.from_tree(yaml_file.to_tree(config)) == config
    run = build_run(config)
    for number in range(2):
        result = train_round(run, number)
        steps = [one for e in result.episodes for one in e.steps_of("agent_0")]
        assert {one.decision.text for one in steps} == {"compete"}
        assert {one.decision.tokens.model.version for one in steps} == {number}


def test_a_custom_backend_works_in_all_commands(tmp_path, monkeypatch, capsys):
    words = ["--environment", GAME, "--episodes", "2"]
    assert cli.main(["eval", "--policy", "echo:cooperate", *words]) == 0
    assert "echo:cooperate" in capsys.readouterr().out
    out = tmp_path / "crossplay"
    who = ["echo:cooperate", "always_compete", "--set", "max_cycles=2"]
    assert cli.main(["crossplay", *who, *words, "--out", str(out), "--quiet"]) == 0
    echo = json.loads((out / "results.json").read_text("utf-8"))["players"][0]
    assert echo["kind"] == "api" and echo["usage"]["models"].keys() == {"echo:cooperate"}
    monkeypatch.setattr("builtins.input", lambda prompt: "compete")
    play = ["play", GAME, "--opponent", "echo:cooperate", "--set", "max_cycles=2", "--seed", "0"]
    assert cli.main(play) == 0
    assert "agent_1 (echo:cooperate)" in capsys.readouterr().out


def test_backends_without_models_by_name_are_no_players(short_run):
    assert is_api_name("echo:words") and not is_api_name("vllm:words")
    with pytest.raises(BackendError, match="echo:MODEL"):
        api_model("echo:")
    with pytest.raises(ConfigError, match=r"backend\.name: .*echo, got 'openai'"):
        short_run(backend={"name": "openai"})
    with pytest.raises(ConfigError, match=r"backend\.words: unknown setting where name is"):
        short_run(backend={"words": "compete"})
