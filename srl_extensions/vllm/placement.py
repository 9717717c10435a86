"""GPUs of this machine, and the share of their memory that each server receives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from srl_agents.errors import PlacementError

GIB = 2**30
MEMORY = 0.9
"""Share of a GPU's memory for all servers on it."""


@dataclass(frozen=True)
class Gpu:
    """One GPU with its total and its free memory in GiB."""

    index: int
    """Index in this process, as torch counts."""
    memory_gib: float
    free_gib: float


@dataclass(frozen=True)
class Placement:
    """GPUs of one server, and the share of their memory; () and None select the CPU."""

    gpus: tuple[int, ...]
    """Indices; several share the layers (tensor parallelism); none is the CPU."""
    memory_fraction: float | None
    """Share of the memory of each of these GPUs; None on a CPU."""


def find_gpus() -> list[Gpu]:
    """Initialize CUDA and return the GPUs that torch finds; empty without any."""
    if not any(any(Path("/dev").glob(name)) for name in ("nvidia[0-9]*", "kfd", "dxg")):
        return []
    import torch

    found = []
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        found.append(Gpu(index, total / GIB, free / GIB))
    return found


def place(servers: int, gpus: Sequence[Gpu], *, each: int = 1) -> list[Placement]:
    """Return a placement for each server, on the CPU if there are no GPUs.

    Groups of `each` consecutive GPUs are assigned to servers in turn; GPUs may be shared or left
    unused. Servers of a group receive equal shares of the free memory, in all at most 0.9 of the
    total. The GPU with the smallest free share decides. PlacementError for 1 to `each` - 1 GPUs.
    """
    if not gpus:
        return [Placement((), None)] * servers
    if each > len(gpus):
        raise PlacementError(f"tensor-parallel-size must be at most {len(gpus)} GPUs, got {each}")
    groups = [tuple(gpus[i : i + each]) for i in range(0, len(gpus) - each + 1, each)]
    chosen = [groups[number % len(groups)] for number in range(servers)]
    counts = Counter(chosen)
    return [
        Placement(
            tuple(gpu.index for gpu in group),
            min(min(MEMORY, gpu.free_gib / gpu.memory_gib) for gpu in group) / counts[group],
        )
        for group in chosen
    ]
