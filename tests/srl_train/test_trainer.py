"""Trainer: results, files, cancellation, shutdown and refused calls."""

import asyncio
import json
import sys
import threading

import pytest

from srl_agents.episode import read_jsonl
from srl_train.checkpoints import list_checkpoints
from srl_train.config import yaml_file
from srl_train.errors import CheckpointNotFound, ConfigError, TrainingError
from srl_train.metrics import read_metrics
from srl_train.trainer import Trainer
from tests.srl_train.run_state import everything, same, without_times


def trainer_for(config, folder, **settings):
    return Trainer(config, folder / "run", **settings)


@pytest.fixture(scope="module")
def whole(short_run, tmp_path_factory):
    """Return the Trainer of an uninterrupted run of two rounds."""
    trainer = trainer_for(short_run(), tmp_path_factory.mktemp("whole"))
    trainer.fit()
    return trainer


def test_results_and_files_of_a_run(short_run, tmp_path):
    config = short_run(
        rounds=5,
        checkpoints__every=2,
        logging={"evaluation_episodes": 3, "episodes": 2, "episodes_every": 3},
    )
    trainer = trainer_for(config, tmp_path)
    results = trainer.fit()
    assert results["training_completed"] is True
    assert results["total_episodes"] == 20
    assert results["training_time"] > 0
    metrics = results["training_metrics"]
    assert metrics["episodes"] == [0, 1, 2, 3, 4]
    assert len(metrics["total_rewards"]) == 5
    assert metrics["weight_update_counts"] == {"model_0": 5, "model_1": 5}
    assert results["checkpoints_saved"] == [
        "round_00000002",
        "round_00000004",
        "final_round_00000005",
    ]
    for when in ("before", "after"):
        assert set(results["evaluation"][when]["per_model"]) == {"model_0", "model_1"}
        assert results["evaluation"][when]["episodes"] == 3

    folder = tmp_path / "run"
    assert yaml_file.load(folder / "config.yaml") == config
    rows = read_metrics(folder / "metrics.jsonl")
    assert [row["round"] for row in rows] == [0, 1, 2, 3, 4]
    assert rows[3]["environment"]["raw_reward"] == metrics["total_rewards"][3]
    assert set(list_checkpoints(folder / "checkpoints")) == set(results["checkpoints_saved"])
    assert sorted(p.name for p in (folder / "episodes").iterdir()) == [
        f"round_{n:08d}.jsonl" for n in (0, 3, 4)
    ]
    episodes = list(read_jsonl(folder / "episodes" / "round_00000003.jsonl"))
    assert [len(e.turns) for e in episodes] == [2, 2] and episodes[0].extra["round"] == 3
    summary = json.loads((folder / "summary.json").read_text())
    assert summary["evaluation"] == results["evaluation"]
    assert summary["models"] == results["final_model_states"]
    assert set(summary["baselines"]) == {"uniform", "constant", "scripted", "optimum"}
    assert (summary["mode"], summary["strategy"]) == ("cooperative", "asynchronous")
    assert "trl" in summary["versions"]
    assert not [p for p in folder.rglob("*") if "partial" in p.name or p.name.startswith(".")]


def test_evaluations_do_not_change_the_weights(whole, short_run, tmp_path):
    logging = {"evaluation_episodes": 2, "episodes": 2}
    watched = trainer_for(short_run(logging=logging, checkpoints__every=1), tmp_path)
    watched.fit()
    assert same(everything(whole.run), everything(watched.run))


@pytest.mark.parametrize("terminal", [False, True])
def test_progress_is_printed_on_a_terminal(short_run, tmp_path, monkeypatch, capsys, terminal):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: terminal)
    trainer_for(short_run(rounds=1), tmp_path).fit()
    assert ("round 1/1" in capsys.readouterr().err) is terminal


class Gate:
    """Sink that blocks the run after a round until `proceed` is set."""

    def __init__(self):
        self.reached, self.proceed = threading.Event(), threading.Event()

    def write(self, row):
        self.reached.set()
        assert self.proceed.wait(30)

    def close(self):
        pass


def test_cancelled_run_completes_its_round_and_resumes(short_run, tmp_path):
    config, gate = short_run(rounds=3), Gate()
    trainer = trainer_for(config, tmp_path, sinks=(gate,))

    async def cancelled():
        task = asyncio.create_task(trainer.train())
        await asyncio.to_thread(gate.reached.wait, 30)
        assert trainer.get_training_status()["is_training"]
        task.cancel()
        await asyncio.sleep(0)
        gate.proceed.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert not trainer.is_training
    assert trainer.run.next_round == 1
    assert list_checkpoints(tmp_path / "run" / "checkpoints") == ["round_00000001"]
    results = asyncio.run(trainer.train())
    assert results["training_completed"] and trainer.run.next_round == 3
    assert [r["round"] for r in read_metrics(tmp_path / "run" / "metrics.jsonl")] == [0, 1, 2]
    whole = trainer_for(config, tmp_path / "whole")
    whole.fit()
    assert same(everything(whole.run), everything(trainer.run))


def test_shutdown_saves_a_checkpoint(short_run, tmp_path):
    gate = Gate()
    trainer = trainer_for(short_run(rounds=3), tmp_path, sinks=(gate,))

    async def shut_down():
        task = asyncio.create_task(trainer.train())
        await asyncio.to_thread(gate.reached.wait, 30)
        closing = asyncio.create_task(trainer.shutdown())
        await asyncio.sleep(0.05)
        assert not closing.done(), "shutdown must wait for the round"
        gate.proceed.set()
        await closing
        return await task

    results = asyncio.run(shut_down())
    assert results["training_completed"] is False
    assert results["total_episodes"] == 4
    assert list_checkpoints(tmp_path / "run" / "checkpoints") == ["round_00000001"]


def test_single_rounds_equal_a_whole_run(whole, short_run, tmp_path):
    trainer = trainer_for(short_run(), tmp_path)
    first = trainer.train_round()
    assert first.row["round"] == 0
    trainer.train_round()
    with pytest.raises(TrainingError, match="no round is left"):
        trainer.train_round()
    asyncio.run(trainer.shutdown())
    assert list_checkpoints(tmp_path / "run" / "checkpoints") == ["round_00000002"]
    assert same(everything(whole.run), everything(trainer.run))


def test_run_without_a_checkpoint_restarts(whole, short_run, tmp_path):
    stopped = trainer_for(short_run(), tmp_path)
    stopped.train_round()
    stopped.close()
    with pytest.raises(ConfigError, match="already contains a run: resume it"):
        trainer_for(short_run(), tmp_path).fit()
    with pytest.raises(CheckpointNotFound):
        trainer_for(short_run(), tmp_path).load_checkpoint()
    again = trainer_for(short_run(), tmp_path)
    assert again.resume() is False
    again.fit()
    assert same(everything(whole.run), everything(again.run))
    rows = [read_metrics(one.files.metrics) for one in (whole, again)]
    assert without_times(rows[0]) == without_times(rows[1])
