"""The models of a checkpoint play with its weights; damaged pools in it are refused."""

import shutil

import pytest
import torch

from srl_envs import coop_compete_v0
from srl_train import checkpoints as checkpoint
from srl_train import resume
from srl_train.build import build_run
from srl_train.cli import main
from srl_train.errors import CheckpointError, ConfigError
from srl_train.loading import load_all
from srl_train.player_names import parse_player, settings_of_run
from srl_train.round import train_round
from srl_train.trainer import Trainer
from tests.srl_train.run_state import weights

ADAPTERS = {"rank": 2}


def make_env():
    return coop_compete_v0.parallel_env(variant="pair", num_agents=2, max_cycles=2)


@pytest.fixture(scope="module")
def trained(short_run, tmp_path_factory):
    """(A trainer after two rounds, the folder of the checkpoint after the first, its weights)."""
    config = short_run(models__adapters=ADAPTERS)
    trainer = Trainer(config, tmp_path_factory.mktemp("trained") / "run")
    trainer.train_round()
    then = weights(trainer.run)
    saved = trainer.files.checkpoints / trainer.save_checkpoint()
    trainer.fit()
    return trainer, saved, then


def test_models_of_a_checkpoint_have_its_weights(trained):
    trainer, saved, then = trained
    named = parse_player(str(saved))
    assert named.kind == "run" and list(named.sources) == ["model_0", "model_1"]
    how = settings_of_run(saved).overridden(device="cpu").loading
    found = load_all(named.sources, make_env, how)
    for name, backend, adapter in found:
        parameters = dict(backend.model.named_parameters())
        for key, own in then[name].items():
            key = key.replace(".default.", f".{adapter}.")
            assert torch.equal(parameters[key], own), key
    moved = trainer.run.learners["model_0"].weights()
    assert any(not torch.equal(moved[key], own) for key, own in then["model_0"].items())


def test_one_model_of_a_checkpoint_is_named_as_one_of_a_run(trained, tmp_path):
    _, saved, _ = trained
    assert list(parse_player(f"{saved}:model_1").sources) == ["model_1"]
    with pytest.raises(ConfigError, match="has no model 'model_9', only model_0, model_1"):
        parse_player(f"{saved}:model_9")
    games = tmp_path / "games.jsonl"
    assert main(["collect", str(saved), "--episodes", "2", "--out", str(games)]) == 0
    assert len(games.read_text().splitlines()) == 2


def test_a_run_without_models_suggests_its_newest_checkpoint(short_run, tmp_path):
    trainer = Trainer(short_run(rounds=1), tmp_path / "run")
    trainer.fit()
    [saved] = trainer.files.checkpoints.iterdir()
    shutil.rmtree(trainer.files.models)
    with pytest.raises(ConfigError, match=r"or give one of .*/checkpoints"):
        parse_player(str(tmp_path / "run"))
    with pytest.raises(ConfigError, match="srl export"):
        build_run(short_run(models__base=f"{saved}:model_0"))
    run = build_run(short_run(models__count=1, seats={"agent_1": f"{saved}:model_1"}))
    result = train_round(run, 0)
    assert all(episode.failure is None for episode in result.episodes)
    [frozen] = run.config.models.frozen_models
    held = dict(run.players.backends[frozen].model.named_parameters())
    for name, own in trainer.run.learners["model_1"].weights().items():
        assert torch.equal(held[name], own)


@pytest.mark.usefixtures("one_model")
def test_environments_named_by_records_need_trust(short_run, tmp_path, capsys, monkeypatch):
    (tmp_path / "brief_game.py").write_text(
        "from srl_envs.games.coop_compete import parallel_env\n"
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
    for words in (
        ["export", f"{saved}:model_0", str(tmp_path / "out")],
        ["eval", "--environment", own, "--policy", f"{saved}:model_0", "--episodes", "1"],
    ):
        assert main(words) == 2
        assert f"'{own}' is code that a record names" in capsys.readouterr().err
        assert main([*words, "--trust"]) == 0
        capsys.readouterr()


@pytest.fixture(scope="module")
def pooled(short_run, tmp_path_factory):
    """(A trainer that has trained against a pool, its folder)."""
    run = tmp_path_factory.mktemp("pooled") / "run"
    trainer = Trainer(
        short_run(
            models__count=1,
            models__adapters=ADAPTERS,
            opponent_pools={"past": {"every": 1, "draw": "nash", "nash_episodes": 2}},
            seats={"agent_1": "past"},
        ),
        run,
    )
    trainer.fit()
    return trainer, run


@pytest.mark.parametrize(
    "damage, told",
    [
        ("another pool", r"pools must be \['past'\], got \['other', 'past'\]"),
        ("no snapshots", r"first snapshots of \[\], not of \['model_0'\]"),
        ("unknown", "model_0@0: unknown tensor '../weights'"),
    ],
)
def test_damaged_pools_in_checkpoints_are_refused(pooled, tmp_path, damage, told):
    trainer, run = pooled
    [saved] = (run / "checkpoints").iterdir()
    whole = checkpoint.load(saved)
    spoilt = tmp_path / "checkpoints" / "spoilt"
    checkpoint.save(
        spoilt.parent,
        spoilt.name,
        tensors={"models/model_0": whole.tensors("models/model_0")},
        state=damaged(whole.state, damage),
        metadata=dict(whole.metadata),
    )
    before = trainer.run.pools["past"].snapshots
    with pytest.raises(CheckpointError, match=told) as error:
        resume.load(trainer.run, spoilt.parent, spoilt.name)
    assert "\n" not in str(error.value) and f"remove {spoilt}" in str(error.value)
    assert trainer.run.pools["past"].snapshots is before


def damaged(state, damage):
    """Return the saved state of a run with the pool `past`, with a damaged entry."""
    pools = state["pools"]
    past = pools["past"]
    weights = past[0]["weights"]
    if damage == "another pool":
        pools["other"] = past
    elif damage == "no snapshots":
        pools["past"] = []
    else:
        weights["../weights"] = next(iter(weights.values()))
    return state
