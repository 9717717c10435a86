"""Runs whose models sample in stub servers: every step samples the published version."""

import contextlib
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from srl_agents.errors import BackendError
from srl_extensions.vllm import models as served_models
from srl_extensions.vllm import publisher as served_publisher
from srl_train.errors import ConfigError, TrainingError
from srl_train.trainer import Trainer
from tests.servers.vllm_stub import sampled_versions, stub_server

SETTINGS = {"models__adapters": {"rank": 4}, "algorithm__learning_rate": 0.01}


@pytest.fixture
def served_run(short_run, tmp_path, stub):  # The trainers end before the stub.
    """Function that creates the trainer of a short run on these servers."""
    with contextlib.ExitStack() as stack:

        def make(*stubs, out="run", **settings):
            own = {"name": "vllm", "servers": [one.url for one in stubs]}
            published = tmp_path / "published"
            published.mkdir(exist_ok=True)
            backend = {**own, "folder": str(published), **settings.pop("backend", {})}
            config = short_run(**{**SETTINGS, **settings, "backend": backend})
            return stack.enter_context(Trainer(config, tmp_path / out))

        yield make


def test_every_step_samples_the_newest_version(served_run, stub, tmp_path):
    trainer = served_run(stub, rounds=2)
    run = trainer.run
    for number in range(2):
        result = trainer.train_round()
        for agent, sampled_by in sampled_versions(result.episodes).items():
            [one] = sampled_by
            model = run.seats[agent]
            assert (one.version, one.adapter) == (number, model)
        for model, row in result.row["models"].items():
            assert row["updates"] == number + 1
            assert row["sampler_divergence_max"] < 1e-4, model
            assert row["staleness"] == {"mean": 0.0, "max": 0}
    assert len(stub.adapters) == 4  # The newest and the previous version of two models.
    requested = {body["model"] for body in stub.bodies}
    # Versions 0 to 2 have different names.
    assert len({name for name in requested if name.startswith("model_0@")}) == 3
    trainer.close()
    assert not stub.adapters and not list((tmp_path / "published").iterdir())


def altered(tensors, path):
    save_file({name: tensor + 0.05 for name, tensor in tensors.items()}, path)


def test_altered_weights_are_refused_and_the_previous_version_stays(served_run, stub, monkeypatch):
    trainer = served_run(stub)
    run = trainer.run
    names = set(stub.adapters)
    weights = {name: own + 0.01 for name, own in run.learners["model_0"].weights().items()}
    with monkeypatch.context() as patch:
        patch.setattr(served_publisher, "save_file", altered)
        with pytest.raises(BackendError, match=r"differ by .* from the learner's"):
            run.players.publisher.publish("model_0", 1, weights)
    assert run.players.publisher.current("model_0").version == 0
    assert set(stub.adapters) == names
    [episode, *_] = trainer.train_round().episodes
    assert {one.version for one in sampled_versions([episode])["agent_0"]} == {0}


def test_resume_publishes_the_weights_of_the_checkpoint(served_run, stub):
    first = served_run(stub, rounds=2, checkpoints__every=1)
    first.train_round()
    first.close()
    second = served_run(stub, rounds=2, checkpoints__every=1)
    second.load_checkpoint()
    assert second.run.players.publisher.current("model_1").version == 1
    assert second.fit()["training_completed"]


def test_past_versions_and_frozen_models_sample_as_adapters(served_run, stub, tiny_folder):
    trainer = served_run(
        stub,
        models__count=1,
        models__frozen_models={"still": tiny_folder},
        opponent_pools={"past": {"every": 1, "draw": "nash", "nash_episodes": 1}},
        environment__options={"num_agents": 3, "max_cycles": 2},
        seats={"agent_1": "past", "agent_2": "still"},
    )
    assert "still" not in trainer.run.players.modules
    base = trainer.run.players.backends["model_0"]
    assert all(own is base for own in trainer.run.players.backends.values())
    result = trainer.train_round()
    sampled_by = sampled_versions(result.episodes)
    [past] = sampled_by["agent_1"]
    assert (past.version, past.adapter) == ("model_0@0", "past")
    [still] = sampled_by["agent_2"]
    assert still.adapter == "still"
    trainer.train_round()
    assert trainer.run.learners.keys() == {"model_0"}


def test_whole_models_have_a_server_each(served_run, tiny_folder):
    with stub_server(Path(tiny_folder), served_name="model_0") as one, stub_server(
        Path(tiny_folder), served_name="model_1"
    ) as two:  # fmt: skip
        trainer = served_run(one, two, models__adapters=None)
        trainer.train_round()
        result = trainer.train_round()
        assert {v.version for own in sampled_versions(result.episodes).values() for v in own} == {1}
        assert all(m["sampler_divergence_max"] < 1e-4 for m in result.row["models"].values())
        folder = trainer.run.players.publisher.folder
        [newest] = folder.glob("model_1@2.*/model.safetensors")
        trained = trainer.run.learners["model_1"].weights()
        assert all(torch.equal(own, trained[n]) for n, own in load_file(newest).items())
        trainer.close()  # The servers must still run.


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"models__sampling": {"top_p": 0.9}}, "top_p or top_k"),
        ({"backend": {"servers": []}}, "servers: give addresses"),
        ({"models__adapters": None}, r"backend.servers: got 1 where 2 whole models"),
        (
            {"models__adapters": None, "models__count": 1, "engine__play_ahead": True},
            "engine.play_ahead",
        ),
    ],
)
def test_incompatible_settings_are_refused(served_run, stub, settings, words):
    with pytest.raises(ConfigError, match=words):
        _ = served_run(stub, **settings).run


def test_divergence_above_the_limit_ends_training(served_run, stub):
    trainer = served_run(stub, backend={"max_divergence": 1e-12})
    with pytest.raises(TrainingError, match=r"max_divergence is 1e-12"):
        trainer.train_round()


@pytest.mark.parametrize("folder", ["nowhere", "a_file"])
def test_unusable_folder_is_refused_before_models_are_loaded(
    served_run, stub, tmp_path, monkeypatch, folder
):
    (tmp_path / "a_file").write_text("")
    monkeypatch.setattr(served_models, "learning_models", None)
    with pytest.raises(ConfigError, match=r"backend.folder: no weights can be written to '.*/"):
        _ = served_run(stub, backend={"folder": str(tmp_path / folder)}).run


def test_interrupted_build_unloads_and_removes_publications(
    served_run, stub, tiny_folder, tmp_path, monkeypatch
):
    def interrupted(*args, **settings):
        raise KeyboardInterrupt

    monkeypatch.setattr("srl_train.local.policies_by_seats", interrupted)
    trainer = served_run(
        stub,
        models__frozen_models={"still": tiny_folder},  # The frozen model is already published.
        environment__options={"num_agents": 3, "max_cycles": 2},
        seats={"agent_2": "still"},
    )
    with pytest.raises(KeyboardInterrupt):
        _ = trainer.run
    assert not any((tmp_path / "published").iterdir())
    assert stub.counts["/v1/load_lora_adapter"] == stub.counts["/v1/unload_lora_adapter"] == 1
