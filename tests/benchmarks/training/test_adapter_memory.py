import json

import pytest
import torch

from benchmarks.training import adapter_memory, processes, random_qwen2, tensor_bytes
from srl_train.config.yaml_file import from_tree


def setting(base, count):
    seats = {f"agent_{seat}": "uniform" for seat in range(count, adapter_memory.SEATS)}
    own = {"models.base": base, "models.count": count, "seats": seats}
    return {**adapter_memory.SETTING, **own}


@pytest.fixture
def in_this_process(monkeypatch):
    def run(command, extra=None):
        assert command[1:3] == ["-m", "benchmarks.training.tensor_bytes"]
        held = tensor_bytes.measure(from_tree({}, json.loads(command[3])))
        return processes.Cost(1.0, 1.0, 10**9, f"a line of somebody else's\n{json.dumps(held)}\n")

    monkeypatch.setattr(adapter_memory.processes, "run", run)


def test_adapters_are_counted_one_by_one_and_the_base_once(tiny_folder, in_this_process):
    result = adapter_memory.measure({"tiny": tiny_folder}, [1, 2])
    one, two = result["tiny"]["runs"]["1"], result["tiny"]["runs"]["2"]
    assert one["base"] == two["base"] > 0
    for kind in ("adapters", "gradients"):
        assert two[kind] == 2 * one[kind] > 0
    assert one["gradients"] == one["adapters"]
    # AdamW: two moments, and a step count for each tensor.
    assert 2 * one["adapters"] < one["optimizers"] < 2.1 * one["adapters"]
    assert one["tensors"] == sum(one[k] for k in ("base", "adapters", "gradients", "optimizers"))
    assert result["tiny"]["ratios"]["tensors"] == two["tensors"] / one["tensors"]
    assert "| tiny | ratio |" in adapter_memory.markdown(result)


def test_a_storage_counts_once():
    whole = torch.zeros(10)
    assert tensor_bytes.size_of([whole, whole[:5], whole.view(2, 5)]) == 40
    assert tensor_bytes.size_of([whole, whole.clone()]) == 80


def test_tensors_are_found_in_nested_state():
    state = {"state": {0: {"step": torch.tensor(1.0), "m": torch.zeros(3)}}, "groups": [{"lr": 1}]}
    assert sum(t.numel() for t in tensor_bytes.tensors_in(state)) == 4


def test_models_that_do_not_learn_are_no_measurement(tiny_folder):
    spoilt = {**setting(tiny_folder, 1), "environment.options": {
        "num_agents": adapter_memory.SEATS, "max_cycles": 1, "noise_std": 0.0,
        "cooperation_weight": 0.0, "competition_weight": 0.0,
    }}  # fmt: skip
    with pytest.raises(RuntimeError, match="never updated"):
        tensor_bytes.measure(from_tree({}, spoilt))


def test_a_random_base_can_be_trained(tmp_path, tiny_folder):
    # The game of `tiny_folder`, whose tokenizer is there already.
    game = {"variant": "pair", "num_agents": 2, "max_cycles": 3}
    config = from_tree({}, {"environment.options": game})
    count = random_qwen2.write(tmp_path / "base", 1, 64, config)
    held = tensor_bytes.measure(from_tree({}, setting(str(tmp_path / "base"), 1)))
    assert held["base"] >= 4 * count
