"""Placement of servers on GPUs and CPUs."""

import pytest
import torch

from srl_extensions.vllm import placement
from srl_extensions.vllm.placement import GIB, Gpu, Placement, find_gpus, place


@pytest.mark.parametrize(
    ("servers", "free", "each", "expected"),
    [
        (1, [80, 80], 1, [((0,), 0.9)]),
        (3, [80, 80], 1, [((0,), 0.45), ((1,), 0.9), ((0,), 0.45)]),
        (1, [20], 1, [((0,), 0.25)]),  # Other programs use this GPU.
        (2, [80, 40, 80], 2, [((0, 1), 0.25), ((0, 1), 0.25)]),
        (2, [], 1, [((), None), ((), None)]),
    ],
)
def test_servers_are_dealt_to_gpus_and_share_their_memory(servers, free, each, expected):
    gpus = [Gpu(index, 80.0, own) for index, own in enumerate(free)]
    assert place(servers, gpus, each=each) == [Placement(*values) for values in expected]


def test_find_gpus_lists_devices_of_torch(monkeypatch, tmp_path):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    memory = [(GIB, 2 * GIB), (3 * GIB, 4 * GIB)]
    monkeypatch.setattr(torch.cuda, "mem_get_info", memory.__getitem__)
    (tmp_path / "nvidia0").touch()
    monkeypatch.setattr(placement, "Path", lambda name: tmp_path)
    assert find_gpus() == [Gpu(0, 2.0, 1.0), Gpu(1, 4.0, 3.0)]
