"""Stages before the rounds in learner actors, by direct calls: equal to the local engine's."""

import numpy as np
import pytest

from srl_train.config.engine import RayEngineConfig
from srl_train.distributed.ray_engine import standing
from srl_train.engine.offline.stage import Stage
from srl_train.metrics import read_metrics
from srl_train.trainer import Trainer
from tests.srl_train.distributed.ray_engine.direct import DirectPlaces, direct_engine
from tests.srl_train.run_state import everything, same, without_times

SFT = {"data_policy": "always_cooperate", "episodes": 6, "epochs": 2, "batch_size": 4}
DPO = {"episodes": 8, "epochs": 2, "batch_size": 4}
MORTAL = ("open_stage", "call_in_stage", "learn", "close_stage", "play")
"""Calls of which workers die."""
CASES = {
    "federated": {"sft": {**SFT, "schedule": "linear"}, "updates__strategy": "federated"},
    "synchronized, with a critic": {
        "dpo": DPO,
        "updates__strategy": "synchronized",
        "algorithm": {"name": "ppo", "critic": "shared"},
    },
    "two stages of adapters beside a scripted player": {
        "sft": {"episodes": 6, "epochs": 1, "batch_size": 4, "seats": "all"},
        "dpo": {**DPO, "epochs": 1},
        "models__adapters": {"rank": 2},
        "environment__options": {"num_agents": 3, "max_cycles": 2},
        "seats": {"agent_2": "always_cooperate"},
    },
}


def trained(config, folder):
    with Trainer(config, folder) as trainer:
        assert trainer.fit()["training_completed"]
        return told(trainer)


def told(trainer):
    """All that two equal runs have in common."""
    rows = without_times(read_metrics(trainer.files.stages))
    return everything(trainer.run), rows, without_times(trainer.run.stages.reports)


def on_ray(config):
    return config.replaced(engine=RayEngineConfig())


@pytest.mark.parametrize("settings", CASES.values(), ids=CASES)
def test_stages_are_equal_to_the_bit_whoever_dies(short_run, monkeypatch, tmp_path, settings):
    rng, deaths = np.random.default_rng(5), []

    def dies(method):
        if len(deaths) < 8 and method in MORTAL and rng.random() < 0.4:
            deaths.append(method)
            return True
        return False

    monkeypatch.setattr(standing, "MOST_DEATHS", 9)
    direct_engine(monkeypatch, DirectPlaces(dies))
    config = short_run(**settings, rounds=1)
    expected = trained(config, tmp_path / "local")
    assert same(trained(on_ray(config), tmp_path / "ray"), expected)
    assert len(deaths) > 4 and {"open_stage", "call_in_stage"} <= set(deaths)


def test_a_stage_goes_on_from_its_checkpoint(short_run, monkeypatch, tmp_path):
    config = short_run(sft={**SFT, "epochs": 1}, dpo=DPO, rounds=1)
    expected = trained(config, tmp_path / "whole")
    train_pass = Stage.train_pass

    def one_pass(stage):
        trainer._stop.set()
        return train_pass(stage)

    with monkeypatch.context() as patch:
        patch.setattr(Stage, "train_pass", one_pass)
        for done in range(3):
            direct_engine(monkeypatch, DirectPlaces())
            trainer = Trainer(on_ray(config), tmp_path / "parts")
            if done:
                trainer.load_checkpoint()
            assert trainer.run.stages.passes == done
            assert not trainer.fit()["training_completed"]
            trainer.close()
    direct_engine(monkeypatch, DirectPlaces())
    with Trainer(on_ray(config), tmp_path / "parts") as trainer:
        trainer.load_checkpoint()
        trainer.fit()
        assert same(told(trainer), expected)
