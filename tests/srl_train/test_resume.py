"""A resumed run is bit-identical to an uninterrupted run."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from srl_agents.errors import RolloutError
from srl_train import checkpoints as checkpoint
from srl_train.checkpoints import list_checkpoints
from srl_train.config import yaml_file
from srl_train.errors import CheckpointError
from srl_train.metrics import read_metrics
from srl_train.trainer import Trainer
from tests.srl_train.run_state import (
    everything,
    resumed_and_whole,
    same,
    weights,
    without_times,
)

ADAPTERS = {"models__adapters": {"rank": 2}}
RUNS = {
    "synchronized": {"updates__strategy": "synchronized"},
    "federated": {
        "updates__strategy": "federated",
        "updates__mix": 0.5,
        "updates__period": 2,
        "updates__server": {"name": "fedavgm"},
    },
    "asynchronous adapters": {
        "updates__sample_budget": {"model_1": 6},
        "models__constrained": True,
        **ADAPTERS,
    },
    "selective adapters": {
        "updates__strategy": "selective",
        "updates__patience": 1,
        "algorithm__beta": 0.05,
        **ADAPTERS,
    },
}


def metrics_of(folder):
    return without_times(read_metrics(folder / "metrics.jsonl"))


FAST = ("federated", "asynchronous adapters")


@pytest.mark.parametrize(
    "name", [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in RUNS]
)
def test_resumed_run_equals_an_uninterrupted_run(name, short_run, tmp_path):
    config = short_run(
        **RUNS[name],
        mode__name="mixed",
        rollout__group_size=2,
        rollout__groups_per_round=2,
        algorithm__minibatches=2,
        algorithm__schedule="linear",
        logging__evaluation_episodes=2,
    )
    whole = Trainer(config, tmp_path / "whole")
    expected = whole.fit()

    trainer = Trainer(config, tmp_path / "parts")
    trainer.train_round()
    trainer.save_checkpoint()
    trainer.close()  # the process ends here
    resumed = Trainer(config, tmp_path / "parts")
    assert resumed.load_checkpoint() is True
    assert resumed.run.next_round == 1
    results = resumed.fit()

    assert same(everything(resumed.run), everything(whole.run))
    assert metrics_of(tmp_path / "parts") == metrics_of(tmp_path / "whole")
    assert results["evaluation"] == expected["evaluation"]
    assert results["final_model_states"] == expected["final_model_states"]
    assert results["training_completed"] and results["total_episodes"] == 8


def test_checkpoint_contains_a_moved_reference(short_run, tmp_path):
    config = short_run(
        rounds=3,
        algorithm__beta=0.5,
        algorithm__reference="moving",
        algorithm__reference_every=2,
        models__count=1,
    )
    resumed, whole = resumed_and_whole(config, tmp_path, rounds=2)  # it moves in the second round
    assert resumed.run.versions == {"model_0": 3}
    assert same(everything(resumed.run), everything(whole.run))


@pytest.fixture(scope="module")
def trained(short_run, tmp_path_factory):
    """A trainer after its two rounds."""
    trainer = Trainer(short_run(), tmp_path_factory.mktemp("trained") / "run")
    trainer.fit()
    return trainer


def test_rounds_after_the_last_checkpoint_are_repeated_and_recorded_once(
    trained, short_run, tmp_path
):
    config = short_run(checkpoints__every=1, logging__episodes=1)
    cut = Trainer(config, tmp_path / "cut")
    for _ in range(2):
        cut.train_round()
    cut.close()
    assert [row["round"] for row in metrics_of(tmp_path / "cut")] == [0, 1]
    resumed = Trainer(config, tmp_path / "cut")
    resumed.load_checkpoint("round_00000001")
    assert resumed.run.next_round == 1
    resumed.fit()
    assert metrics_of(tmp_path / "cut") == metrics_of(trained.files.folder)
    assert same(everything(resumed.run), everything(trained.run))


@pytest.fixture
def finished(trained, tmp_path):
    """Return the folder of a completed run of two rounds."""
    return shutil.copytree(trained.files.folder, tmp_path / "run")


def test_completed_run_continues_with_more_rounds(short_run, finished, tmp_path):
    longer = Trainer(short_run(rounds=3, checkpoints={"every": 3}), finished)
    longer.load_checkpoint()
    assert longer.fit()["training_metrics"]["episodes"] == [2]
    whole = Trainer(short_run(rounds=3), tmp_path / "whole")
    whole.fit()
    assert same(everything(longer.run), everything(whole.run))


@pytest.mark.parametrize(
    "settings, says",
    [
        (
            {"algorithm__learning_rate": 0.5},
            "algorithm.learning_rate: must be 0.003 as in final_round_00000002",
        ),
        (
            {"rounds": 1},
            "rounds must be at least 2, the rounds of final_round_00000002, got 1",
        ),
    ],
)
def test_resume_with_another_configuration_is_refused(settings, says, short_run, finished):
    other = Trainer(short_run(**settings), finished)
    with pytest.raises(CheckpointError, match=says) as error:
        other.load_checkpoint()
    assert "\n" not in str(error.value)
    assert yaml_file.load(finished / "config.yaml").rounds == 2


def test_rounds_cannot_change_with_a_learning_rate_schedule(short_run, tmp_path):
    Trainer(short_run(rounds=1, algorithm__schedule="linear"), tmp_path / "run").fit()
    other = Trainer(short_run(rounds=2, algorithm__schedule="linear"), tmp_path / "run")
    with pytest.raises(
        CheckpointError, match=r"rounds: must be 1 .* on which the .*schedule depends, got 2"
    ):
        other.load_checkpoint()


@pytest.mark.parametrize("stage", [None, "sft"])
def test_failed_evaluation_loses_no_training(stage, short_run, tmp_path, monkeypatch):
    settings = {} if stage is None else {"sft": {"data_policy": "uniform", "episodes": 2}}
    when = "after" if stage is None else "after_sft"
    config = short_run(rounds=1, checkpoints__every=5, logging__evaluation_episodes=2, **settings)
    evaluate = Trainer.evaluate

    def failing(trainer, now):
        if now == when:
            raise RolloutError("gone")
        evaluate(trainer, now)

    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "evaluate", failing)
        with pytest.raises(RolloutError, match="gone"):
            Trainer(config, tmp_path / "run").fit()
    resumed = Trainer(config, tmp_path / "run")
    resumed.load_checkpoint()
    position = (0, 1) if stage else (1, 0)
    assert resumed.run.position == position
    assert (tmp_path / "run" / "models" / "model_0").exists() == (stage is None)
    assert set(resumed.fit()["evaluation"]) == {"before", when, "after"}


# ---- killed --------------------------------------------------------------------------------------


def killed_and_resumed(config, tmp_path, kills, seed):
    """Return (number of kills, number of incomplete checkpoints)."""
    path = tmp_path / "run.yaml"
    path.write_text(yaml_file.dump(config))
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-m", "tests.srl_train.train_until_killed",
         str(path), str(tmp_path / "killed"), str(kills), str(seed)],
        cwd=root, env=os.environ | {"PYTHONPATH": str(root)}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    return tuple(map(int, done.stdout.split()[-2:]))


def check_nothing_was_lost(config, tmp_path):
    whole = Trainer(config, tmp_path / "whole")
    whole.fit()
    folder = tmp_path / "killed" / "checkpoints"
    found = checkpoint.load(folder / list_checkpoints(folder)[0])
    assert found.path.name == f"final_round_{config.rounds:08d}"
    for model, expected in weights(whole.run).items():
        assert same(found.tensors(f"models/{model}"), expected)
    assert metrics_of(tmp_path / "killed") == metrics_of(tmp_path / "whole")
    resumed = Trainer(config, tmp_path / "killed")
    resumed.load_checkpoint()
    assert same(everything(resumed.run), everything(whole.run))


@pytest.mark.slow
@pytest.mark.parametrize("adapters", [None, {"rank": 4}], ids=["full", "adapters"])
def test_run_resumes_after_random_kills(adapters, short_run, tmp_path):
    config = short_run(
        rounds=30,
        checkpoints__every=1,
        models__adapters=adapters,
        mode__name="mixed",
        updates__sample_budget={"model_1": 8},
        algorithm__schedule="cosine",
        logging={"evaluation_episodes": 8, "episodes": 1, "episodes_every": 2},
    )
    killed, half_written = killed_and_resumed(config, tmp_path, kills=10, seed=1)
    assert half_written >= 1
    assert killed >= 4  # a run whose rounds are quick is done before its last killers come
    check_nothing_was_lost(config, tmp_path)
