"""What nvidia-smi says becomes GPUs; without it there are none."""

import pytest

from srl_agents.errors import ServingError
from srl_agents.serving.gpus import Gpu, find_gpus

TWO = r"0, GPU-aa11, 81559, 81000\n1, GPU-bb22, 81559, 512"


@pytest.fixture
def machine(tmp_path):
    def with_program(script):
        program = tmp_path / "nvidia-smi"
        program.write_text(f"#!/bin/sh\n{script}\n")
        program.chmod(0o755)
        return {"PATH": str(tmp_path)}

    return with_program


def test_there_are_none_without_a_driver(tmp_path):
    assert find_gpus({"PATH": str(tmp_path)}) == []


def test_memory_is_in_gib(machine):
    found = find_gpus(machine(f"printf '{TWO}'"))
    assert found[1] == Gpu(1, 81559 / 1024, 0.5) and len(found) == 2


@pytest.mark.parametrize(
    "visible, indices", [("", []), ("1", [1]), ("GPU-aa", [0]), ("1,0", [0, 1]), ("7", [])]
)
def test_only_those_that_the_process_may_use(machine, visible, indices):
    environment = machine(f"printf '{TWO}'") | {"CUDA_VISIBLE_DEVICES": visible}
    assert [gpu.index for gpu in find_gpus(environment)] == indices


@pytest.mark.parametrize(
    "script, words",
    [
        ("echo 'NVIDIA-SMI has failed'; exit 9", r"failed \(9\): NVIDIA-SMI has failed; mend"),
        ("echo '0, GPU-aa, [N/A], [N/A]'", "does not tell a GPU's memory: '0, GPU-aa"),
    ],
)
def test_what_it_cannot_tell_is_an_error(machine, script, words):
    with pytest.raises(ServingError, match=words):
        find_gpus(machine(script))
