"""What holds models back in their rounds, through stages and stops."""

import pytest

from srl_train.trainer import Trainer
from tests.srl_train.engine.run_state import same, weights

SFT = {"data_policy": "uniform", "episodes": 6, "epochs": 2, "batch_size": 4, "learning_rate": 5e-3}


@pytest.mark.parametrize("adapters", [None, {"rank": 4, "alpha": 8.0}])
def test_rounds_are_held_to_the_models_as_the_stages_left_them(adapters, short_run, tmp_path):
    """Also after a stop: the reference is neither the loaded models nor those of the checkpoint."""
    config = short_run(
        sft=SFT,
        models__adapters=adapters,
        algorithm__beta=0.1,
        algorithm__learning_rate=1e-2,
        rounds=3,
        checkpoints__every=1,
    )
    whole = Trainer(config, tmp_path / "whole", record_metrics=False)
    loaded = {name: own.clone() for name, own in whole.run.learners["model_0"].reference().items()}
    whole.train_stages()
    left = whole.run.learners["model_0"]
    assert same(left.reference(), left.weights()) and not same(left.reference(), loaded)
    held = {name: own.clone() for name, own in left.reference().items()}
    first = whole.train_round().row["models"]["model_0"]
    assert abs(first["kl"]) < 1e-6
    later = whole.train_round().row["models"]["model_0"]
    assert later["kl"] > 1e-5
    name = whole.save_checkpoint()
    assert same(left.reference(), held) and not same(left.reference(), left.weights())
    end = whole.train_round().row["models"]["model_0"]
    whole.close()

    again = Trainer(config, tmp_path / "whole", record_metrics=False)
    again.load_checkpoint(name)
    assert same(again.run.learners["model_0"].reference(), held)
    assert again.train_round().row["models"]["model_0"]["kl"] == end["kl"]
    assert same(weights(again.run), weights(whole.run))
