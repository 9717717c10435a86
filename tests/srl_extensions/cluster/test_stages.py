"""Offline stages in learner actors of this process: equal to the local engine."""

import pytest

from srl_train.metrics import read_metrics
from srl_train.trainer import Trainer
from tests.srl_extensions.cluster.direct import DirectCluster, deaths_of, on_ray, use
from tests.srl_train.run_state import everything, same, stopped_after_every_pass, without_times

SFT = {"data_policy": "always_cooperate", "episodes": 4, "epochs": 2, "batch_size": 4}
DPO = {"episodes": 4, "epochs": 2, "batch_size": 4}
MORTAL = ("open_stage", "begin_update", "learn", "close_stage", "tokenised", "play")
CASES = {
    "two stages of adapters with a scripted player": {
        "sft": {"episodes": 4, "epochs": 1, "batch_size": 4, "seats": "all"},
        "dpo": {**DPO, "epochs": 1},
        "updates__strategy": "synchronized",
        "models__adapters": {"rank": 2},
        "environment__options": {"num_agents": 3, "max_cycles": 2},
        "seats": {"agent_2": "always_cooperate"},
    },
}


def result_of(trainer):
    """Return everything that two equal runs have in common."""
    rows = without_times(read_metrics(trainer.files.stages))
    return everything(trainer.run), rows, without_times(trainer.run.stages.reports)


def trained(config, folder):
    with Trainer(config, folder) as trainer:
        assert trainer.fit()["training_completed"]
        return result_of(trainer)


@pytest.mark.parametrize("settings", CASES.values(), ids=CASES)
def test_stages_are_equal_to_the_bit_after_deaths(short_run, monkeypatch, tmp_path, settings):
    dies, deaths = deaths_of(MORTAL)
    use(monkeypatch, DirectCluster(dies))
    config = short_run(**settings, rounds=1)
    expected = trained(config, tmp_path / "local")
    assert same(trained(on_ray(config), tmp_path / "ray"), expected)
    assert len(set(deaths)) > 1


def test_a_stage_is_resumed_from_its_checkpoint(short_run, monkeypatch, tmp_path):
    config = short_run(sft={**SFT, "epochs": 1}, dpo={**DPO, "epochs": 1}, rounds=1)
    expected = trained(config, tmp_path / "whole")

    def begun():
        use(monkeypatch, DirectCluster())
        return Trainer(on_ray(config), tmp_path / "parts")

    stopped_after_every_pass(begun, 2, monkeypatch)
    with begun() as trainer:
        trainer.load_checkpoint()
        trainer.fit()
        assert same(result_of(trainer), expected)
