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

    def call(function, *arguments):
        found = child.FUNCTIONS[function](*json.loads(json.dumps(arguments)))
        return found, costs.Cost(1.0, 1.0, 10**9, "")

    monkeypatch.setattr(costs, "run", run)
    monkeypatch.setattr(costs, "call", call)


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


def test_child_calls_a_function_by_name(small, monkeypatch, capsys):
    def run(command):
        assert command[:3] == [sys.executable, "-m", child.__name__]
        child.main(command[3:])
        return costs.Cost(1.0, 1.0, 1, capsys.readouterr().out)

    monkeypatch.setattr(costs, "run", run)
    seconds, cost = costs.call("round_seconds", {**small("scaling").overrides, **SETTINGS})
    assert len(seconds) == 1 and seconds[0] > 0
    assert cost.peak_rss == 1


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
def test_memory_is_measured_in_a_separate_process(small):
    options = {"counts": [1, 2], "layers": 1, "width": 64}
    request = small("adapter_memory", seeds=(), change={"options": options})
    rows = costs.adapter_memory(request).rows
    assert [(row["count"], row["large"]) for row in rows] == [
        (1, False), (2, False), (1, True), (2, True),
    ]  # fmt: skip
    assert all(row["rss"] > 100 for row in rows)
    assert rows[3]["times"] == rows[3]["rss"] / rows[2]["rss"]


@pytest.mark.slow
def test_round_time_is_measured_for_each_number_of_models(small, in_this_process):
    change = {"options": {"counts": [1, 2], "turns": 2}}
    request = small("scaling", seeds=(), change=change, rollout__groups_per_round=1)
    result = costs.scaling(request)
    assert [(row["weights"], row["count"]) for row in result.rows] == [
        ("full", 1), ("full", 2), ("adapters", 1), ("adapters", 2),
    ]  # fmt: skip
    for one, two in (result.rows[:2], result.rows[2:]):
        assert one["times"] == 1.0 and two["times"] == two["round"] / one["round"]
        assert two["round"] > 0
    assert "| adapters | 2 | " in request.claim.tables[0].markdown(result.rows)


def test_vocabulary_update_is_measured_for_all_methods(small, in_this_process):
    options = {"size": 64, "width": 64, "layers": 1, "repeats": 1}
    request = small("vocabulary", seeds=(), change={"options": options})
    result = costs.vocabulary(request)
    assert [row["side"] for row in result.rows] == ["TRL", "ours", "ours, constrained"]
    assert (result.facts["trained"], result.facts["read"]) == (64, 576)
    assert all(row["milliseconds"][0] > 0 for row in result.rows)
    assert result.rows[0]["least_faster"] == 1.0
    assert "\n| ours, constrained |" in request.claim.markdown(result, request)
