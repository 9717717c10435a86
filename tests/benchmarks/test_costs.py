"""Costs of processes, and their functions."""

import json
import math
import subprocess
import sys
import time

import pytest

from benchmarks import child, costs
from srl_train import cli
from tests.benchmarks.conftest import TWO_AGENTS

SETTINGS = {"environment.options": TWO_AGENTS, "models.count": 2}


@pytest.fixture
def in_this_process(monkeypatch):
    """Run commands and functions here, where torch is already loaded."""

    def run(command, extra=None):
        assert command[1:3] == ["-m", "srl_train.cli"] and "CORE_SRL_CACHE" in extra
        began = time.perf_counter()
        assert cli.main(command[3:]) == 0
        return costs.Cost(time.perf_counter() - began, 1.0, 10**9, "")

    def round_seconds(settings):
        found = child.round_seconds(json.loads(json.dumps(settings)))
        return found, costs.Cost(1.0, 1.0, 10**9, "")

    monkeypatch.setattr(costs, "run", run)
    monkeypatch.setattr(costs, "round_seconds", round_seconds)


def test_process_cost_excludes_the_parent():
    small = costs.run([sys.executable, "-c", "print('hello')"])
    large = costs.run([sys.executable, "-c", "x = b'x' * 200_000_000; print(len(x))"])
    assert small.output == "hello\n"
    assert large.output == "200000000\n"
    # At least the parent's memory at the fork, which is large in a test process.
    assert large.peak_rss >= 200_000_000
    assert small.cpu > 0 and small.wall > 0


def test_process_error_contains_its_last_output():
    with pytest.raises(RuntimeError, match=r"(?s)exit code 3.*out of luck"):
        code = "import sys; print('out of luck', file=sys.stderr); sys.exit(3)"
        costs.run([sys.executable, "-c", code])


@pytest.mark.slow
def test_rounds_are_timed_in_a_separate_process(small):
    seconds, cost = costs.round_seconds({**small("scaling").overrides, **SETTINGS})
    assert len(seconds) == 1 and min(seconds[0]) > 0
    assert cost.peak_rss > 100_000_000


def test_measurements_of_memory_do_not_import_torch():
    # Linux counts the parent's memory at the fork in the child's peak.
    code = "import sys, benchmarks.training, benchmarks.costs; assert 'torch' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True, env=costs.environment())


@pytest.mark.slow
def test_full_models_and_adapters_are_measured(small, in_this_process):
    request = small("demo_seeds", rounds=1, models__count=2, environment__options=TWO_AGENTS)
    result = costs.demo_seeds(request)
    full, lora = result.rows
    assert (full["kind"], lora["kind"]) == ("full", "LoRA")
    summary = json.loads((request.folder / "LoRA_3" / "summary.json").read_text())
    assert summary["seed"] == 3
    assert summary["models"]["model_0"]["kind"] == "adapter"
    after = summary["evaluation"]["after"]["raw_reward"]
    assert lora["after"].mean == after
    low, high = full["uniform"], full["optimum"]
    assert lora["way"] == pytest.approx((after - low) / (high - low))
    gains = [row["after"].mean - row["before"].mean for row in (full, lora)]
    assert full["of_full"] == 1.0
    assert lora["of_full"] == pytest.approx(gains[1] / gains[0]) or math.isnan(lora["of_full"])
    assert request.claim.markdown(result, request).count("\n| LoRA | 3 |") == 1


@pytest.mark.slow
def test_round_time_is_measured_for_each_size(small, in_this_process):
    change = {"options": {"sizes": {count: {"models.count": count} for count in (1, 2)}}}
    request = small("scaling", seeds=(), change=change, environment__options=TWO_AGENTS)
    result = costs.scaling(request)
    assert [(row["method"], row["size"]) for row in result.rows] == [
        ("full", 1), ("full", 2), ("adapters", 1), ("adapters", 2),
    ]  # fmt: skip
    for one, two in (result.rows[:2], result.rows[2:]):
        assert two["times"]["training"] == two["training"] / one["training"]
        assert two["round"] > max(two["training"], two["rollout"]) > 0
    assert "| adapters | 2 | " in request.claim.tables[0].markdown(result.rows)
