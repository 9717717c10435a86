import json
import math
import time

import pytest
import torch

from benchmarks.training.costs import accelerator, children, claims, processes
from srl_train import cli
from srl_train.config.yaml_file import from_tree
from srl_train.errors import ConfigError
from tests.benchmarks.training.conftest import TWO_AGENTS


@pytest.fixture
def in_this_process(monkeypatch):
    """Runs commands and functions here, where torch is loaded already."""

    def run(command, extra=None):
        assert command[:2] == processes.srl()[:2] and "CORE_SRL_CACHE" in extra
        began = time.perf_counter()
        assert cli.main(command[3:]) == 0
        return processes.Cost(time.perf_counter() - began, 1.0, 10**9, "")

    def call(function, *arguments):
        found = children.FUNCTIONS[function](*json.loads(json.dumps(arguments)))
        return found, processes.Cost(1.0, 1.0, 10**9, "")

    monkeypatch.setattr(processes, "run", run)
    monkeypatch.setattr(processes, "call", call)


@pytest.mark.slow
def test_runs_of_both_kinds_are_measured(small, in_this_process):
    request = small(rounds=1, models__count=2, environment__options=TWO_AGENTS)
    result = claims.demo_seeds(request)
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
    assert claims.DEMO_SEEDS.markdown(result, request).count("\n| LoRA | 3 |") == 1


@pytest.mark.slow
def test_in_processes_of_their_own(small):
    full, _ = claims.demo_seeds(
        small(rounds=1, models__count=2, environment__options=TWO_AGENTS)
    ).rows
    assert full["built"] and full["peak_gb"] > 0.1 and full["cpu_seconds"] > 1


@pytest.mark.slow
def test_adapters_are_counted_one_by_one_and_the_base_once(small, in_this_process, monkeypatch):
    monkeypatch.setattr(claims, "LAYERS", 1)
    monkeypatch.setattr(claims, "WIDTH", 64)
    request = small(rollout__groups_per_round=1, rounds=1)
    # The tiny base is the one that is there already.
    monkeypatch.setattr(claims, "TINY", request.overrides.pop("models.base"))
    result = claims.adapter_memory(request, counts=(1, 2))
    one, two, *large = (row["held"] for row in result.rows)
    assert one["base"] == two["base"] > 0
    for kind in ("adapters", "gradients"):
        assert two[kind] == pytest.approx(2 * one[kind]) and one[kind] > 0
    assert one["gradients"] == one["adapters"]
    # AdamW: two moments, and a step count for each tensor.
    assert 2 * one["adapters"] < one["optimizers"] < 2.1 * one["adapters"]
    parts = ("base", "adapters", "gradients", "optimizers")
    assert one["tensors"] == pytest.approx(sum(one[kind] for kind in parts))
    assert result.rows[1]["times"]["tensors"] == two["tensors"] / one["tensors"]
    assert [row["large"] for row in result.rows] == [False, False, True, True]
    assert "| 2 | " in claims.ADAPTER_MEMORY.tables[0].markdown(result.rows)
    parameters = float(result.rows[2]["base"].split()[1].removesuffix("M"))
    assert large[0]["base"] >= 4 * parameters - 1


def test_a_storage_counts_once():
    whole = torch.zeros(10)
    assert children.size_of([whole, whole[:5], whole.view(2, 5)]) == 40
    assert children.size_of([whole, whole.clone()]) == 80


def test_tensors_are_found_in_nested_state():
    state = {"state": {0: {"step": torch.tensor(1.0), "m": torch.zeros(3)}}, "groups": [{"lr": 1}]}
    assert sum(t.numel() for t in children.tensors_in(state)) == 4


@pytest.mark.slow
def test_models_that_do_not_learn_are_no_measurement(tiny_folder):
    seats = {f"agent_{agent}": "uniform" for agent in range(1, claims.AGENTS)}
    spoilt = {
        **claims.ADAPTERS, "models.base": tiny_folder, "models.count": 1, "seats": seats,
        "environment.options": {
            "num_agents": claims.AGENTS, "max_cycles": 1, "noise_std": 0.0,
            "cooperation_weight": 0.0, "competition_weight": 0.0,
        },
    }  # fmt: skip
    from_tree({}, spoilt)
    with pytest.raises(RuntimeError, match="never updated"):
        children.tensor_bytes(spoilt)


@pytest.mark.slow
def test_a_round_is_timed_for_every_number_of_models(small, in_this_process):
    request = small(rollout__groups_per_round=1)
    result = claims.scaling(request, counts=(1, 2))
    one, two = result.rows
    assert one["times"] == 1.0 and two["times"] == two["round"] / one["round"]
    assert two["round"] >= two["train"] > 0
    assert "| 2 | " in claims.SCALING.tables[0].markdown(result.rows)


def test_an_update_at_a_vocabulary_is_measured_on_all_sides(small, in_this_process):
    request = small()
    result = claims.vocabulary(request, size=64, width=64, layers=1, repeats=1)
    assert [row["side"] for row in result.rows] == ["TRL", "ours", "ours, constrained"]
    assert (result.facts["trained"], result.facts["read"]) == (64, 576)
    assert all(row["milliseconds"][0] > 0 for row in result.rows)
    assert result.rows[0]["least_faster"] == 1.0
    assert "\n| ours, constrained |" in claims.VOCABULARY.markdown(result, request)


@pytest.mark.usefixtures("one_model")
def test_rounds_are_measured_where_the_configuration_says(small, in_this_process):
    request = small(**{"models.device": "cpu", "rounds": 2, "rollout.group_size": 2})
    cases = [accelerator.Case(1, 64, count, "float32", adapters=True) for count in (1, 2)]
    result = accelerator.accelerator(request, cases)
    assert [row["count"] for row in result.rows] == [1, 2]
    assert all(row["answers_a_second"] > 0 and row["divergence"] < 1e-5 for row in result.rows)
    assert "of_one" not in result.rows[0] and result.rows[1]["of_one"] > 0
    assert "\n| 2 adapters |" in accelerator.ACCELERATOR.tables[0].markdown(result.rows)


@pytest.mark.skipif(torch.cuda.is_available(), reason="an accelerator is there")
def test_without_an_accelerator_nothing_is_measured(small, in_this_process):
    with pytest.raises(ConfigError, match="torch finds none; `srl doctor`"):
        accelerator.accelerator(small())
