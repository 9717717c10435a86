"""Process group of a run that torchrun started: ranks, collectives and checks.

In a single process, all functions return immediately. With several processes, all of them must call
the functions that exchange values. See docs/training/processes.md.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist

from srl_train.errors import TrainingError

T = TypeVar("T")
TIMEOUT = timedelta(minutes=30)
"""Time that a process waits for the other processes."""


def start(device: str, threads: int = 1) -> int:
    """Join the process group that WORLD_SIZE announces; return its size, or 1 without one.

    Blocks until all processes have joined. With CUDA, unless `device` is "cpu", each process uses
    the GPU of its LOCAL_RANK. In a group, OMP_NUM_THREADS is set to `threads` unless it has a
    value. Raises TrainingError if other variables of torchrun are missing.
    """
    announced = _announced()
    if announced == 1 or dist.is_initialized():
        return announced
    required = {"RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}
    if missing := sorted(required - os.environ.keys()):
        raise TrainingError(
            f"WORLD_SIZE is {announced} and {', '.join(missing)} is not set: start with torchrun, "
            "or unset WORLD_SIZE to train in one process"
        )
    # accelerate would use all cores, with a warning.
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    accelerated = device != "cpu" and torch.cuda.is_available()
    if accelerated:
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    # Objects are sent with gloo in both cases.
    dist.init_process_group("cpu:gloo,cuda:nccl" if accelerated else "gloo", timeout=TIMEOUT)
    return announced


def leave() -> None:
    """Leave the process group, if any, after all processes have reached this call.

    Delete references to trainers and learners before, as they keep the group's threads running.
    """
    if dist.is_initialized():
        wait()  # A process that leaves earlier breaks the connections of the others.
        gc.collect()
        dist.destroy_process_group()


def count() -> int:
    """Return the number of processes that have joined, or 1 without a process group."""
    return dist.get_world_size() if dist.is_initialized() else 1


def index() -> int:
    """Return the rank of this process, also before `start`; 0 without torchrun."""
    if dist.is_initialized():
        return dist.get_rank()
    return int(os.environ.get("RANK", "0")) if _announced() > 1 else 0


def is_main() -> bool:
    """Return True for rank 0, the process that writes files and prints."""
    return index() == 0


def wait() -> None:
    """Block until all processes have reached this call."""
    _gathered(None)


def share_of(items: Sequence[T]) -> Sequence[T]:
    """Return this process's contiguous part of the items, by rank; sizes differ by at most 1."""
    number, place = count(), index()
    return items[len(items) * place // number : len(items) * (place + 1) // number]


def gather(items: Sequence[T]) -> list[T]:
    """Return a list of all processes' items, by rank; all must call this. Items are pickled."""
    return [item for part in _gathered(list(items)) for item in part]


def any_of(flag: bool) -> bool:
    """Return True if the flag is set in any process; all processes must call this."""
    return any(_gathered(flag))


def mean_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return each metric's mean over the processes that have it; all processes must call this."""
    columns: dict[str, list[float]] = {}
    for part in _gathered(dict(metrics)):
        for name, value in part.items():
            columns.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in columns.items()}


def check_same(what: str, value: Any) -> None:
    """Raise TrainingError, which begins with `what`, if the processes have different values.

    All processes must call this.
    """
    for place, other in enumerate(_gathered(value)):
        if other != value:
            raise TrainingError(
                f"{what} in process {index()} and in process {place} are not the same: give all "
                "processes the same configuration, files and versions"
            )


def _announced() -> int:
    return int(os.environ.get("WORLD_SIZE", "1"))


def _gathered(value: T) -> list[T]:
    if count() == 1:
        return [value]
    values: list[Any] = [None] * count()
    dist.all_gather_object(values, value)
    return values
