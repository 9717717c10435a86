"""Placement of servers on GPUs and CPUs."""

from types import SimpleNamespace

import pytest
import torch

from srl_agents.errors import PlacementError
from srl_extensions.vllm import placement
from srl_extensions.vllm.placement import GIB, Gpu, Placement, find_gpus, place, weights_gib


def gpus(*free, memory=80.0):
    return [Gpu(index, memory, own) for index, own in enumerate(free)]


@pytest.mark.parametrize(
    ("weights", "free", "expected"),
    [
        ([10], [80, 80], [((0,), 0.9)]),
        ([10, 20, 30], [80, 80], [((0,), 0.45), ((1,), 0.9), ((0,), 0.45)]),
        ([10], [20, 60], [((1,), 0.75)]),  # a GPU that others use
        ([100], [80, 80], [((0, 1), 0.9)]),
        ([100], [80, 80, 80], [((0, 1), 0.9)]),  # powers of two only
        ([200, 10], [80] * 4, [((0, 1, 2, 3), 0.45), ((0,), 0.45)]),
    ],
)
def test_servers_use_the_emptiest_gpus_and_share_them_evenly(weights, free, expected):
    if weights == [200, 10]:
        with pytest.raises(PlacementError, match=r"53.0 GiB on each of 4 GPUs and has 36.0"):
            place(weights, gpus(*free))
        return
    assert place(weights, gpus(*free)) == [Placement(*own) for own in expected]


def test_a_model_larger_than_all_gpus_is_refused():
    with pytest.raises(PlacementError, match=r"103.0 GiB on each of 1 GPUs and has 72.0"):
        place([100], gpus(80))


def test_servers_on_a_cpu_share_its_memory(monkeypatch):
    memory = SimpleNamespace(available=10 * GIB)
    monkeypatch.setattr(placement.psutil, "virtual_memory", lambda: memory)
    assert place([1, 2], []) == [Placement((), None)] * 2
    with pytest.raises(PlacementError, match=r"11.0 GiB of memory are needed by 2 .* 10.0 are"):
        place([2, 3], [])


def test_the_size_of_weights_is_that_of_their_files(tmp_path):
    with pytest.raises(PlacementError, match=r"no weights \(\*.safetensors\)"):
        weights_gib(tmp_path)
    (tmp_path / "pytorch_model.bin").write_bytes(bytes(512))
    assert weights_gib(tmp_path) == 512 / GIB
    for number in range(2):
        (tmp_path / f"{number}.safetensors").write_bytes(bytes(1024))
    assert weights_gib(tmp_path) == 2048 / GIB


def test_gpus_are_those_of_torch(monkeypatch):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    memory = [(GIB, 2 * GIB), (3 * GIB, 4 * GIB)]
    monkeypatch.setattr(torch.cuda, "mem_get_info", memory.__getitem__)
    monkeypatch.setattr("srl_extensions.vllm.placement.has_gpu_device", lambda: True)
    assert find_gpus() == [Gpu(0, 2.0, 1.0), Gpu(1, 4.0, 3.0)]
