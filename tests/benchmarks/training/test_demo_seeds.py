import json
import time

import pytest

from benchmarks.training import demo_seeds, processes
from srl_train import cli


@pytest.fixture
def in_this_process(monkeypatch):
    """Runs `srl` commands here, where torch is loaded already."""

    def run(command, extra=None):
        assert command[:2] == processes.srl()[:2] and "CORE_SRL_CACHE" in extra
        began = time.perf_counter()
        assert cli.main(command[3:]) == 0
        return processes.Cost(time.perf_counter() - began, 1.0, 10**6, "")

    monkeypatch.setattr(demo_seeds.processes, "run", run)


def test_runs_of_both_kinds_are_measured(tmp_path, small_setting, empty_config, in_this_process):
    overrides = {**small_setting, "rounds": 1}
    result = demo_seeds.measure([3], tmp_path / "runs", empty_config, overrides)
    full, lora = result["runs"]
    assert (full["kind"], lora["kind"]) == ("full", "LoRA")
    summary = json.loads((tmp_path / "runs" / "LoRA_3" / "summary.json").read_text())
    assert summary["seed"] == 3
    assert summary["models"]["model_0"]["model_type"] == "adapter"
    after = summary["evaluation"]["after"]["raw_reward"]
    assert lora["after"] == after
    low, high = full["uniform"], full["optimum"]
    assert lora["share_of_way"] == pytest.approx((after - low) / (high - low))
    assert lora["share_of_full_gain"] == pytest.approx(lora["gain"] / full["gain"])
    text = demo_seeds.markdown(result)
    assert text.count("\n| LoRA | 3 |") == 1
    json.dumps(result)


def run(kind="full", **changed):
    return {
        "kind": kind, "share_of_way": 0.98, "share_of_full_gain": 0.96, "training_seconds": 50.0,
        "peak_rss": 1e9, **changed,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("spoilt", "which"),
    [
        (run(share_of_way=0.96), 0),
        (run("LoRA", share_of_full_gain=0.94), 1),
        (run(training_seconds=61.0), 2),
        (run("LoRA", peak_rss=3.1e9), 3),
    ],
)
def test_every_target_can_be_missed(spoilt, which):
    good = [run(), run("LoRA")]
    assert [check.held for check in demo_seeds.checks({"runs": good})] == [True] * 4
    checks = demo_seeds.checks({"runs": [*good, spoilt]})
    assert [i for i, check in enumerate(checks) if not check.held] == [which]


@pytest.mark.slow
def test_in_processes_of_their_own(tmp_path, small_setting, empty_config):
    result = demo_seeds.measure(
        [0], tmp_path / "runs", empty_config, {**small_setting, "rounds": 1}
    )
    full, _ = result["runs"]
    assert full["built_the_model"] and full["peak_rss"] > 10**8 and full["cpu_seconds"] > 1
