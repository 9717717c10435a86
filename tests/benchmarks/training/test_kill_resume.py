import json
import shutil
import sys

import numpy as np
import pytest
import torch

from benchmarks.training import kill_resume, killing
from benchmarks.training.killing import Victim
from benchmarks.training.same_outcome import differences
from srl_train.checkpoints import checkpoint
from srl_train.config.yaml_file import from_tree
from srl_train.trainer import MultiModelTrainer

SAVES_FOR_EVER = """
import pathlib, time
out = pathlib.Path({out!r})
(out / "checkpoints").mkdir(parents=True, exist_ok=True)
(out / "config.yaml").write_text("")
(out / "metrics.jsonl").write_text('{{"round": 0}}\\n{{"rou')
time.sleep({before})
(out / "checkpoints" / ".saving.round_00000001").mkdir(exist_ok=True)
time.sleep({after})
"""


@pytest.fixture(scope="module")
def ended(tiny_folder, tmp_path_factory):
    """A short run's folder."""
    out = tmp_path_factory.mktemp("runs") / "one"
    config = from_tree({}, {
        "environment.options": {"num_agents": 2, "max_cycles": 2}, "models.base": tiny_folder,
        "models.count": 2, "rollout.group_size": 2, "rollout.groups_per_round": 1, "rounds": 1,
        "logging.evaluation_episodes": 2,
    })  # fmt: skip
    MultiModelTrainer(config, out).fit()
    return out


@pytest.fixture
def copy(ended, tmp_path):
    return shutil.copytree(ended, tmp_path / "copy")


def changed_checkpoint(folder, weights=False, state=False):
    """Save the last checkpoint anew, with one number changed."""
    [name] = checkpoint.list_checkpoints(folder / "checkpoints")
    end = checkpoint.load(folder / "checkpoints" / name)
    tensors = {f"models/model_{i}": end.tensors(f"models/model_{i}") for i in range(2)}
    if weights:
        tensor = next(iter(tensors["models/model_1"].values())).view(-1)
        tensor[0] = torch.nextafter(tensor[0], tensor[0] + 1)
    if state:
        end.state["versions"]["model_0"] += 1
    shutil.rmtree(folder / "checkpoints")
    metadata = {"round": end.metadata["round"]}
    checkpoint.save(
        folder / "checkpoints", name, tensors=tensors, state=end.state, metadata=metadata
    )


def test_the_same_run_has_no_differences(ended, copy):
    changed_checkpoint(copy)
    lines = [json.loads(line) for line in (copy / "metrics.jsonl").read_text().splitlines()]
    lines[0]["seconds"]["train"] += 1.0  # clocks may differ
    (copy / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert differences(ended, copy) == []


def test_one_bit_of_a_weight_is_a_difference(ended, copy):
    changed_checkpoint(copy, weights=True)
    [found] = differences(ended, copy)
    assert found.startswith("weights.model_1.")


def test_a_counter_is_a_difference(ended, copy):
    changed_checkpoint(copy, state=True)
    [found] = differences(ended, copy)
    assert found.startswith("state.versions.model_0")


def test_a_metric_is_a_difference(ended, copy):
    row = json.loads((copy / "metrics.jsonl").read_text())
    row["models"]["model_0"]["raw_reward"] += 1e-15
    (copy / "metrics.jsonl").write_text(json.dumps(row) + "\n")
    [found] = differences(ended, copy)
    assert found.startswith("metrics.jsonl[0].models.model_0.raw_reward")


def test_a_missing_model_file_is_a_difference(ended, copy):
    (copy / "models" / "model_0" / "model.safetensors").unlink()
    assert differences(ended, copy) == ["models/model_0/model.safetensors"]


@pytest.fixture
def victim(tmp_path, monkeypatch):
    """Makes a run whose process does only what the test says."""

    def make(before, after):
        out = tmp_path / "out"
        code = SAVES_FOR_EVER.format(out=str(out), before=before, after=after)
        monkeypatch.setattr(killing.processes, "srl", lambda *words: [sys.executable, "-c", code])
        return Victim(tmp_path / "none.yaml", out, {})

    return make


def test_a_kill_waits_for_a_checkpoint_under_way(victim):
    kill = victim(0.2, 60).run_and_kill(0.0, while_saving=True, rng=np.random.default_rng(0))
    assert kill.while_saving and kill.after >= 0.19
    assert (kill.rounds_written, kill.listed, kill.damaged) == (1, 0, ())


def test_a_kill_comes_at_its_moment(victim):
    kill = victim(60, 60).run_and_kill(0.3, while_saving=False, rng=np.random.default_rng(0))
    assert not kill.while_saving
    assert 0.3 <= kill.after < 5.0


def test_a_run_that_is_faster_is_not_killed(victim):
    run = victim(0, 0)
    assert run.run_and_kill(60.0, while_saving=False, rng=np.random.default_rng(0)) is None


def test_a_run_without_a_checkpoint_begins_anew(victim):
    run = victim(0, 0)
    run.run_through()
    assert run.restarts == 0
    run.run_through()
    assert run.restarts == 1


@pytest.mark.slow
def test_killed_runs_end_as_if_they_had_not_been(tmp_path, tiny_folder):
    setting = {**kill_resume.SETTING, "models.base": tiny_folder, "rounds": 3}
    result = kill_resume.measure(tmp_path, 2, setting=setting)
    assert len(result["kills"]) == 2 and result["runs"]
    assert [check.held for check in kill_resume.checks(result)] == [True] * 3
    assert "NOT HELD" not in kill_resume.markdown(result)
