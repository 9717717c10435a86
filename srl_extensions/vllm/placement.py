"""GPUs of this machine, and the share of their memory that each server receives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from srl_agents.errors import PlacementError

GIB = 2**30
GPU_OVERHEAD_GIB = 3.0
"""Allowance for CUDA, activations, adapters and a small cache. vLLM measures the real need itself
and refuses to start if the memory is too small."""
CPU_OVERHEAD_GIB = 3.0
"""Allowance on a CPU: 1 GiB of cache, and 1.9 GiB as measured with a tiny model."""


@dataclass(frozen=True)
class Gpu:
    """One GPU."""

    index: int
    """Index in this process, as torch counts."""
    memory_gib: float
    free_gib: float


@dataclass(frozen=True)
class Placement:
    """GPUs of one server."""

    gpus: tuple[int, ...]
    """Indices; several share the layers (tensor parallelism); none is the CPU."""
    memory_fraction: float | None
    """Share of the memory of each of these GPUs; None on a CPU."""


def has_gpu_device() -> bool:
    """Return whether the system has a device file of a GPU (NVIDIA, AMD, or Windows' WSL)."""
    return any(any(Path("/dev").glob(name)) for name in ("nvidia[0-9]*", "kfd", "dxg"))


def find_gpus() -> list[Gpu]:
    """Return the GPUs that this process may use; torch is imported only if there is a device."""
    if not has_gpu_device():
        return []
    import torch

    found = []
    for index in range(torch.cuda.device_count()):
        free, total = torch.cuda.mem_get_info(index)
        found.append(Gpu(index, total / GIB, free / GIB))
    return found


def weights_gib(folder: Path) -> float:
    """Return the size of a model's weights.

    Raises:
        PlacementError: If the folder contains none.
    """
    files = list(folder.glob("*.safetensors")) or list(folder.glob("pytorch_model*.bin"))
    if not files:
        raise PlacementError(
            f"{folder} holds no weights (*.safetensors): give the folder of a model"
        )
    return sum(file.stat().st_size for file in files) / GIB


def place(
    weights: Sequence[float], gpus: Sequence[Gpu], *, fraction: float = 0.9
) -> list[Placement]:
    """Return a placement for each server, on the CPU if there are no GPUs.

    Each server uses the fewest GPUs (a power of two) whose memory its weights fit into, among those
    with the fewest servers. All servers of a GPU receive equal shares of its memory.

    Args:
        weights: GiB of weights of each server.
        gpus: GPUs to use.
        fraction: Share of the memory of each GPU that servers may use.

    Raises:
        PlacementError: If a server does not fit.
    """
    if not gpus:
        return _on_cpu(weights)
    room = {gpu.index: min(fraction * gpu.memory_gib, gpu.free_gib) for gpu in gpus}
    counts = Counter(dict.fromkeys(room, 0))
    chosen: list[tuple[int, ...]] = []
    for size in weights:
        number = 1
        while 2 * number <= len(room) and size / number + GPU_OVERHEAD_GIB > max(room.values()):
            number *= 2
        emptiest = sorted(room, key=lambda gpu: (counts[gpu], -room[gpu], gpu))
        chosen.append(tuple(sorted(emptiest[:number])))
        counts.update(chosen[-1])
    placements = []
    memory = {gpu.index: gpu.memory_gib for gpu in gpus}
    for size, own in zip(weights, chosen, strict=True):
        share = min(room[gpu] / counts[gpu] for gpu in own)
        if (need := size / len(own) + GPU_OVERHEAD_GIB) > share:
            raise PlacementError(
                f"a server needs {need:.1f} GiB on each of {len(own)} GPUs and has {share:.1f}: "
                "serve fewer replicas or smaller bases, or use more or larger GPUs"
            )
        smallest = min(room[gpu] / counts[gpu] / memory[gpu] for gpu in own)
        placements.append(Placement(own, int(1e4 * smallest + 1e-6) / 1e4))
    return placements


def _on_cpu(weights: Sequence[float]) -> list[Placement]:
    free = psutil.virtual_memory().available / GIB
    need = sum(weights) + CPU_OVERHEAD_GIB * len(weights)
    if need > free:
        raise PlacementError(
            f"{need:.1f} GiB of memory are needed by {len(weights)} servers and {free:.1f} are "
            "free: serve fewer replicas or smaller bases, or use a machine with GPUs"
        )
    return [Placement((), None) for _ in weights]
