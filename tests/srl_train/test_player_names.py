"""Meaning of player names; a misspelled folder does not start a download."""

from pathlib import Path

import pytest

from srl_envs import loading
from srl_envs.errors import UntrustedError
from srl_train.cli import main
from srl_train.errors import ConfigError
from srl_train.player_names import base_named, parse_player
from srl_train.trainer import Trainer


@pytest.fixture
def here(tmp_path, monkeypatch):
    """Change to a folder that contains runs/demo, and fail if the hub is contacted."""
    (tmp_path / "runs" / "demo" / "models" / "model_0").mkdir(parents=True)
    (tmp_path / "runs" / "demo" / "models" / "model_0" / "config.json").write_text("{}")
    monkeypatch.chdir(tmp_path)

    def asked(*args, **settings):
        raise AssertionError(f"the hub was contacted: {args}")

    monkeypatch.setattr("socket.getaddrinfo", asked)
    return tmp_path


MISTYPED = ["runs/dmeo", "./demo", "/nowhere/demo", "runs/dmeo:model_0", "a/b/c", "~nobody/a"]


@pytest.mark.parametrize("name", MISTYPED)
def test_a_path_that_does_not_exist_is_refused_at_once(name, here):
    with pytest.raises(ConfigError, match="there is no folder"):
        parse_player(name)
    with pytest.raises(ConfigError, match=r"models\.base: there is no folder"):
        base_named("models.base", name)


@pytest.mark.parametrize("name", ["Qwen/Qwen3-0.6B", "Qwen/Qwen3-0.6B@v1.0", "a/b@refs/pr/1"])
def test_hub_names_are_unchanged(name, here):
    assert parse_player(name).kind == "hub"
    assert base_named("models.base", name) == name
    assert base_named("models.base", "gpt2") == "gpt2"


def test_a_hub_name_whose_owner_is_a_local_folder_is_refused(here):
    (here / "Qwen").mkdir()
    with pytest.raises(ConfigError, match="neither a run nor a model is in 'Qwen'"):
        parse_player("Qwen")
    with pytest.raises(ConfigError, match="there is no folder Qwen/Qwen3"):
        parse_player("Qwen/Qwen3-0.6B")


def test_a_mistyped_run_is_refused(here, capsys):
    assert main(["collect", "runs/dmeo", "--out", "x.jsonl"]) == 2
    assert "there is no folder runs/dmeo" in capsys.readouterr().err


def test_a_base_may_be_named_as_on_the_command_line(here):
    assert base_named("models.base", "runs/demo") == str(here / "runs/demo/models/model_0")
    assert base_named("models.base", "runs/demo:model_0") == str(here / "runs/demo/models/model_0")
    (here / "demo").symlink_to(here / "runs/demo")
    assert base_named("models.base", "demo:model_0") == str(here / "demo/models/model_0")
    (here / "runs/demo/models/model_1").mkdir()
    (here / "runs/demo/models/model_1/config.json").write_text("{}")
    with pytest.raises(ConfigError, match="must be one model"):
        base_named("models.base", "runs/demo")


def test_relative_bases_and_data_are_recorded_by_their_whole_path(
    tmp_path, tiny_folder, short_run, monkeypatch
):
    (tmp_path / "base").symlink_to(tiny_folder)
    monkeypatch.chdir(tmp_path)
    config = short_run(
        models__base="base", models__frozen_models={"old": "base"}, seats={"agent_1": "old"},
        models__count=1, sft={"data": ["games.jsonl"]},
    )  # fmt: skip
    recorded = Trainer(config, tmp_path / "run").run.config
    assert recorded.models.base == str(tmp_path / "base")
    assert recorded.models.frozen_models == {"old": str(tmp_path / "base")}
    assert recorded.sft.data == (str(Path(tmp_path / "games.jsonl")),)


@pytest.mark.parametrize("name", ["openai:m", "runs/demo", "Qwen/Qwen3-0.6B"])
def test_an_untrusted_record_names_only_built_in_players(name, here):
    with loading.closed():
        assert [parse_player(one).kind for one in ("tit_for_tat", "tiny")] == ["scripted", "tiny"]
        with pytest.raises(UntrustedError, match=r"is a player that a record names.*--trust"):
            parse_player(name)
