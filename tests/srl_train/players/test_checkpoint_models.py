"""The models of a checkpoint play as they stood in it, by every command that seats models."""

import json
import shutil

import pytest
import torch

from srl_envs import coop_compete_v0
from srl_train.cli import main
from srl_train.engine.assemble import assemble
from srl_train.errors import CheckpointError, ConfigError
from srl_train.players.load_all import load_all
from srl_train.players.player_spec import parse_player
from srl_train.players.trained_models import Loading, settings_of_run
from srl_train.trainer import Trainer

ADAPTERS = {"rank": 2}


def make_env():
    return coop_compete_v0.parallel_env(variant="pair", num_agents=2, max_cycles=2)


@pytest.fixture(params=["whole models", "adapters"])
def trained(request, short_run, tmp_path):
    """(A trainer after two rounds, the folder of the checkpoint after the first, its weights)."""
    own = {"models__adapters": ADAPTERS} if request.param == "adapters" else {}
    trainer = Trainer(short_run(**own), tmp_path / "run")
    trainer.train_round()
    then = {
        name: {key: value.clone() for key, value in learner.weights().items()}
        for name, learner in trainer.run.learners.items()
    }
    saved = trainer.files.checkpoints / trainer.save_checkpoint()
    trainer.fit()
    return trainer, saved, then


def test_every_model_has_the_weights_of_that_moment(trained):
    trainer, saved, then = trained
    named = parse_player(str(saved))
    assert named.kind == "run" and list(named.sources) == ["model_0", "model_1"]
    how = settings_of_run(saved).on_device("cpu").loading
    found = load_all(named.sources, make_env, how)
    for name, backend, adapter in found:
        parameters = dict(backend.model.named_parameters())
        for key, weights in then[name].items():
            key = key.replace(".default.", f".{adapter}.")
            assert torch.equal(parameters[key], weights), key
    moved = trainer.run.learners["model_0"].weights()
    assert any(not torch.equal(moved[key], own) for key, own in then["model_0"].items())


def test_one_model_of_a_checkpoint_is_named_as_one_of_a_run(trained, capsys, tmp_path):
    _, saved, _ = trained
    assert list(parse_player(f"{saved}:model_1").sources) == ["model_1"]
    with pytest.raises(ConfigError, match="has no model 'model_9', only model_0, model_1"):
        parse_player(f"{saved}:model_9")
    out = tmp_path / "scores.json"
    scenario = ["--environment", "coop_compete_pair_v0", "--episodes", "1", "--quiet"]
    assert main(["eval", *scenario, "--policy", f"{saved}:model_1", "--out", str(out)]) == 0
    assert json.loads(out.read_text())["focal"]["models"] == {"model_1": f"{saved}:model_1"}
    games = tmp_path / "games.jsonl"
    assert main(["collect", str(saved), "--episodes", "2", "--out", str(games)]) == 0
    assert len(games.read_text().splitlines()) == 2


def test_damaged_weights_are_refused(trained):
    _, saved, _ = trained
    weights = saved / "models" / "model_0.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1])
    with pytest.raises(CheckpointError):
        load_all(parse_player(str(saved)).sources, make_env, Loading("cpu"))


def test_models_answer_as_they_trained_there(short_run, tmp_path):
    config = short_run(models__agent_sampling={"agent_1": {"top_k": 2}}, rounds=1)
    trainer = Trainer(config, tmp_path / "run")
    trainer.fit()
    [saved] = trainer.files.checkpoints.iterdir()
    own = settings_of_run(saved).as_trained(saved, "model_1")
    assert own.sampling.top_k == 2


def test_a_run_without_models_yet_names_its_newest_checkpoint(short_run, tmp_path):
    trainer = Trainer(short_run(rounds=1), tmp_path / "run")
    trainer.fit()
    [saved] = trainer.files.checkpoints.iterdir()
    shutil.rmtree(trainer.files.models)
    with pytest.raises(ConfigError, match=f"or give a checkpoint, {saved}"):
        parse_player(str(tmp_path / "run"))
    with pytest.raises(ConfigError, match="srl export"):
        assemble(short_run(models__base=f"{saved}:model_0"))


def test_an_environment_of_its_own_code_is_made_only_for_those_who_trust_it(
    short_run, tmp_path, capsys, monkeypatch
):
    (tmp_path / "brief_game.py").write_text(
        "from srl_envs.games.coop_compete.env import parallel_env\n"
        "def game():\n    return parallel_env(variant='pair', num_agents=2, max_cycles=2)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    own = "brief_game:game"
    config = short_run(
        environment__name=own,
        environment__options={},
        models__base="tiny",
        rounds=1,
    )
    trainer = Trainer(config, tmp_path / "run")
    trainer.fit()
    [saved] = trainer.files.checkpoints.iterdir()
    monkeypatch.setattr("builtins.input", lambda prompt="": "cooperate")
    for words in (
        ["export", f"{saved}:model_0", str(tmp_path / "out")],
        ["eval", "--environment", own, "--policy", f"{saved}:model_0", "--episodes", "1"],
        ["play", own, "--opponent", f"{saved}:model_0"],
    ):
        assert main(words) == 2
        assert f"'{own}' is code that a record names" in capsys.readouterr().err
        assert main([*words, "--trust"]) == 0
        capsys.readouterr()
