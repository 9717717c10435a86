"""Two processes give the results of one: updates, runs, and resumes with another number."""

import json
import math
import os
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file

from srl_train import processes
from srl_train.config.yaml_file import dump
from srl_train.errors import ConfigError, TrainingError
from srl_train.metrics import read_metrics
from tests.srl_train import processes_at_work as work
from tests.srl_train.learners.reference.grpo import small_model

ROOT = Path(processes.__file__).parents[1]
EXACT = 1e-5
LIMIT = 240
"""Seconds after which a launch counts as hanging."""


def torchrun(*words):
    """Return (exit code, output) of torchrun with two processes, which may take LIMIT seconds."""
    launcher = ("torch.distributed.run", "--standalone", "--local-addr", "127.0.0.1")
    command = [sys.executable, "-m", *launcher, "--nproc_per_node", "2", *map(str, words)]
    ours = {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT), "HF_HUB_OFFLINE": "1"}
    launched = subprocess.Popen(
        command,
        env={**os.environ, **ours},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        told, _ = launched.communicate(timeout=LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(launched.pid, signal.SIGKILL)
        told, _ = launched.communicate()
        pytest.fail(f"two processes hang:\n{told[-3000:]}")
    return launched.returncode, told


def at_work(tasks, folder):
    """Return (exit code, output) of two processes that run the tasks, forked from this one."""
    output, until = folder / "output.txt", time.monotonic() + LIMIT
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks next to threads
        child = os.fork()
    if child == 0:
        work.launch(tasks, folder, output)
    while (ended := os.waitpid(child, os.WNOHANG))[0] == 0:
        if time.monotonic() > until:
            os.killpg(child, signal.SIGKILL)
            pytest.fail(f"two processes hang:\n{output.read_text()[-3000:]}")
        time.sleep(0.05)
    return os.waitstatus_to_exitcode(ended[1]), output.read_text()


def difference(one, other, start=None):
    """L2 norm of the difference over all tensors, relative to that of `one` (less `start`)."""
    assert one.keys() == other.keys() and one
    start = start or {name: torch.zeros(()) for name in one}
    apart = math.fsum(float(((one[n].double() - other[n].double()) ** 2).sum()) for n in one)
    size = math.fsum(float(((one[n].double() - start[n].double()) ** 2).sum()) for n in one)
    return math.sqrt(apart / size)


MIDDLE = {
    "models.sampling.max_new_tokens": 32,
    "rollout.groups_per_round": 2,
    "checkpoints": {"every": 1, "keep": -1},
    "logging.episodes": 1,
}
"""Settings of two rounds with a checkpoint in their middle."""


def configurations(folder, short_run, chosen):
    (folder / "configs").mkdir(parents=True)
    for name, settings in chosen.items():
        text = dump(short_run(**{**MIDDLE, **settings}))
        (folder / "configs" / f"{name}.yaml").write_text(text)


ADAPTERS = {
    "environment.options": {"variant": "population", "num_agents": 4, "max_cycles": 2},
    "models.count": 2,
    "models.adapters": {"rank": 4},
    "updates.strategy": "federated",
}
TOGETHER = {"updates.strategy": "synchronized"}
SLICED = {**TOGETHER, "parallel": "fsdp"}


@pytest.fixture(scope="module")
def launched(tmp_path_factory, short_run):
    """(folder of one process, folder of two, what these wrote): all updates, two runs, and, of
    the two, an end by failure."""
    one, two = tmp_path_factory.mktemp("one"), tmp_path_factory.mktemp("two")
    configurations(one, short_run, {"full": TOGETHER, "adapters": ADAPTERS})
    configurations(two, short_run, {"adapters": ADAPTERS, "sliced": SLICED})
    work.do_updates(one)
    work.do_runs(one)
    shutil.copytree(one / "full" / "checkpoints", two / "from" / "sliced")
    code, told = at_work("updates,runs,failure", two)
    assert code != 0 and "the second process fails" in told, told[-4000:]
    return one, two, told


@pytest.fixture
def launches(launched):
    """(folder of one process, folder of two)."""
    return launched[:2]


def split(path):
    """(first step's gradients, weights at the end) of a file of updates."""
    found = load_file(path)
    gradients = {n: t for n, t in found.items() if n.startswith("first.")}
    return gradients, {n: t for n, t in found.items() if n not in gradients}


@pytest.mark.parametrize("case", [*work.UPDATES, "ppo", *(f"fsdp_{c}" for c in work.SLICED)])
def test_two_processes_update_as_one(launches, case):
    one, two = launches
    alone = split(one / f"{case.removeprefix('fsdp_')}.safetensors")
    together = split(two / f"{case}.safetensors")
    assert difference(alone[0], together[0]) < EXACT, "gradients"
    assert difference(alone[1], together[1]) < EXACT, "weights"
    metrics = [json.loads((folder / "metrics.json").read_text()) for folder in launches]
    found, expected = metrics[1][case], metrics[0][case.removeprefix("fsdp_")]
    for name in ("loss", "grad_norm", "reward_std", "learning_rate"):
        assert found[name] == pytest.approx(expected[name], rel=1e-4, abs=1e-6), name


def test_the_update_itself_is_the_same(launches):
    # With AdamW's usual epsilon of 1e-8 it divides noise by noise where gradients vanish.
    start = {name: tensor.detach() for name, tensor in small_model().named_parameters()}
    [alone, together] = [split(folder / "steady.safetensors")[1] for folder in launches]
    assert difference(alone, together, start) < EXACT


@pytest.mark.parametrize("name, alone", [("adapters", "adapters"), ("sliced", "full")])
def test_two_processes_run_as_one(launches, name, alone):
    one, two = launches
    assert_same_end(one / alone, two / name)
    rows, expected = (
        read_metrics(two / name / "metrics.jsonl"),
        read_metrics(one / alone / "metrics.jsonl"),
    )
    assert [row["environment"] for row in rows] == [row["environment"] for row in expected]
    assert len(list((two / name / "episodes").iterdir())) == 2  # written by one process alone
    saved = load_file(two / name / "models" / "model_0" / weights_file(name))
    kept = load_file(one / alone / "models" / "model_0" / weights_file(name))
    assert difference(kept, saved) < EXACT


def weights_file(name):
    return "adapter_model.safetensors" if name == "adapters" else "model.safetensors"


def test_a_run_resumes_with_another_number_of_processes(launches, tmp_path):
    one, two = launches
    assert_same_end(one / "full", two / "resumed" / "sliced")  # begun by one, ended by two
    shutil.copytree(two / "sliced" / "checkpoints", tmp_path / "checkpoints")
    config = work.yaml_file.load(two / "configs" / "sliced.yaml")
    work.resumed(config, tmp_path / "checkpoints", tmp_path / "run")
    assert_same_end(one / "full", tmp_path / "run")  # begun by two, ended by one


def assert_same_end(one, other):
    files = sorted(p.name for p in one.iterdir() if p.suffix in (".weights", ".optimizer"))
    assert len(files) >= 4
    for file in files:
        assert difference(load_file(one / file), load_file(other / file)) < EXACT, file


def test_a_process_that_fails_ends_the_others(launched):
    told = launched[2]
    assert "never reached" not in told
    for place in (0, 1):
        assert f"told in {place}: a number in process" in told


# ---- in one process ------------------------------------------------------------------------------


def test_missing_variables_of_torchrun_are_refused(monkeypatch):
    for name in ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("WORLD_SIZE", "2")
    with pytest.raises(TrainingError, match="LOCAL_RANK, MASTER_ADDR, MASTER_PORT, RANK"):
        processes.start("cpu")


def test_samples_that_cannot_be_divided_are_refused(monkeypatch, short_run):
    config = short_run(algorithm={"minibatches": 2})
    config.check_sizes(2)
    with pytest.raises(
        ConfigError, match=r"3 processes: must be a divisor of rollout\.group_size .*, got 6"
    ):
        config.check_sizes(3)
    one = work.learner()
    monkeypatch.setattr(processes, "count", lambda: 3)
    with pytest.raises(TrainingError, match=r"8 samples .*multiple of processes x .* \(3\)"):
        one.begin_update(work.played(), 0, 0)


# ---- slow: the command line, and everything else that learns -------------------------------------


@pytest.mark.slow
def test_the_command_line_trains_and_resumes_under_torchrun(short_run, tmp_path):
    path, out = tmp_path / "pair.yaml", tmp_path / "out"
    path.write_text(dump(short_run(logging={"evaluation_episodes": 2, "episodes": 0})))
    words = ["-m", "srl_train.cli", "train", path, "--out", out, "--quiet"]
    code, told = torchrun(*words)
    assert code == 0, told[-3000:]
    assert told.count("training in 2 processes, ddp") == 1
    assert told.count("Raw reward per agent and step") == 1
    assert [row["round"] for row in read_metrics(out / "metrics.jsonl")] == [0, 1]
    code, told = torchrun(*words, "--resume", "--set", "rounds=3", "--set", "parallel=fsdp")
    assert code == 0, told[-3000:]
    assert told.count("resuming after 2 of 3 rounds") == 1
    assert told.count("training in 2 processes, fsdp") == 1
    assert [row["round"] for row in read_metrics(out / "metrics.jsonl")] == [0, 1, 2]
    code, told = torchrun(*words)
    assert code != 0 and "already contains a run" in told
    code, told = torchrun(*words, "--out", tmp_path / "b", "--set", "rollout.group_size=3")
    assert code != 0 and "2 processes: must be a divisor of rollout.group_size" in told


@pytest.mark.slow
def test_all_learners_train_in_two_processes(tmp_path, short_run):
    # With Adam's own 1e-8, a gradient that rounding alone makes differ is a step of another sign.
    steady = {"adam_epsilon": 1e-4}
    federated = {"updates.strategy": "federated", "algorithm.beta": 0.1, "algorithm.trl": steady}
    chosen = {
        "ppo": {"algorithm": {"name": "ppo", "minibatches": 1, "num_iterations": 2, "trl": steady}},
        "credit": {"credit.name": "leave_one_out", "models.constrained": True,
                   "algorithm.beta": 0.1},
        "pool": {"opponent_pools": {"past": {"every": 1}}, "seats": {"agent_1": "past"},
                 "models.count": 1},
        "stages": {"sft": {"episodes": 6, "epochs": 2, "batch_size": 5, "learning_rate": 1e-3},
                   "dpo": {"episodes": 8, "epochs": 1, "learning_rate": 1e-3}},
    }  # fmt: skip
    one, two = tmp_path / "one", tmp_path / "two"
    configurations(one, short_run, {**chosen, "sliced": federated})
    sliced = {**federated, "parallel": "fsdp"}
    configurations(two, short_run, {**chosen, "sliced": sliced})
    work.do_runs(one)
    code, told = at_work("runs", two)
    assert code == 0, told[-4000:]
    for name in (*chosen, "sliced"):
        files = sorted(p.name for p in (one / name).iterdir() if p.suffix == ".weights")
        assert files
        for file in files:
            apart = difference(load_file(one / name / file), load_file(two / name / file))
            assert apart < 5 * EXACT, (name, file)
