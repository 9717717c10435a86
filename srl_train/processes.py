"""Process group of one training run: ranks and collectives.

`torchrun` starts them and says so in the environment (RANK, WORLD_SIZE, ...); `start` joins them
into one process group. Everything here does nothing, at no cost, where there is one process. What
is shared and how: docs/training/processes.md.
"""

from __future__ import annotations

import gc
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor

from srl_train.errors import TrainingError

T = TypeVar("T")

PATIENCE = timedelta(minutes=30)
"""How long a process waits for the others before it gives up with an error."""
_NEEDED = ("RANK", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT")


def start(device: str, threads: int = 1) -> int:
    """Join the processes that were started together, and return how many they are.

    `device`: a configuration's models.device, 'auto', 'cpu' or 'cuda'; on accelerators each
    process takes the one of its LOCAL_RANK. Raises TrainingError where the environment announces
    several processes and they cannot find one another.
    """
    announced = _announced()
    if announced == 1 or dist.is_initialized():
        return announced
    missing = [name for name in _NEEDED if name not in os.environ]
    if missing:
        raise TrainingError(
            f"WORLD_SIZE is {announced} and {', '.join(missing)} is not set: start with torchrun, "
            "or unset WORLD_SIZE to train in one process"
        )
    # accelerate would take the number of cores, and warn of it.
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    accelerated = device != "cpu" and torch.cuda.is_available()
    if accelerated:
        place, there = int(os.environ["LOCAL_RANK"]), torch.cuda.device_count()
        if place >= there:
            raise TrainingError(
                f"LOCAL_RANK is {place}, this machine has {there} accelerator(s): start no more "
                "processes than that on it, or set models.device to cpu"
            )
        torch.cuda.set_device(place)
    # Objects travel over gloo in both cases.
    dist.init_process_group("cpu:gloo,cuda:nccl" if accelerated else "gloo", timeout=PATIENCE)
    return announced


def leave() -> None:
    """Leave the process group, at the end of all work, once all processes are there.

    Let go of trainers and learners first: what they hold of the group would keep its threads
    running until the interpreter ends, which may end in an abort.
    """
    if dist.is_initialized():
        wait()  # whoever leaves first breaks the connections of those still at work
        gc.collect()
        dist.destroy_process_group()


def count() -> int:
    """How many processes train together."""
    return dist.get_world_size() if dist.is_initialized() else _announced()


def index() -> int:
    """Which of them this one is, from 0."""
    if dist.is_initialized():
        return dist.get_rank()
    return int(os.environ.get("RANK", "0")) if _announced() > 1 else 0


def is_main() -> bool:
    """Whether this is the process that writes and prints."""
    return index() == 0


def wait() -> None:
    """Go on once all processes are here."""
    if count() > 1:
        _gathered(None)


@contextmanager
def main_first() -> Iterator[None]:
    """Inside, the main process goes first, and the others follow once it is through.

    For what the first to come leaves in a cache for the others.
    """
    if not is_main():
        wait()
    yield
    if is_main():
        wait()


def share_of(items: Sequence[T]) -> Sequence[T]:
    """This process's part: contiguous, in the order of the processes, sizes differing by 1 at
    most."""
    number, place = count(), index()
    return items[len(items) * place // number : len(items) * (place + 1) // number]


def gather(own: Sequence[T]) -> list[T]:
    """The parts of all processes in one list, in the order of the processes.

    Picklable things; the inverse of `share_of`.
    """
    return [item for part in _gathered(list(own)) for item in part]


def any_of(flag: bool) -> bool:
    """Whether it is so in any process."""
    return any(_gathered(flag))


def sums(values: Sequence[float]) -> list[float]:
    """Each value's sum over the processes, in double precision."""
    return [math.fsum(column) for column in zip(*_gathered(list(values)), strict=True)]


def mean(value: float) -> float:
    """The mean over the processes; NaN where one has a NaN."""
    return sum(_gathered(value)) / count()


def mean_metrics(metrics: Mapping[str, float]) -> dict[str, float]:
    """Each metric's mean over the processes that have it."""
    found: dict[str, list[float]] = {}
    for own in _gathered(dict(metrics)):
        for name, value in own.items():
            found.setdefault(name, []).append(value)
    return {name: sum(values) / len(values) for name, values in found.items()}


def mean_tensors(tensors: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Each tensor's mean over the processes, which all have the same names and shapes."""
    averaged = dict(tensors)
    if count() > 1:
        for name in sorted(averaged):
            total = averaged[name].clone()
            dist.all_reduce(total)
            averaged[name] = total / count()
    return averaged


def check_equal(what: str, modules: Mapping[str, torch.nn.Module]) -> None:
    """Raise TrainingError where the modules' parameters are not the same in all processes."""
    if count() == 1:
        return
    for name, module in modules.items():
        marks = _gathered({n: _mark(p) for n, p in module.named_parameters()})
        for place, other in enumerate(marks[1:], 1):
            if other != marks[0]:
                [parameter, *_] = [n for n in (marks[0] | other) if marks[0].get(n) != other.get(n)]
                raise TrainingError(
                    f"{what}: {name} differs between process 0 and process {place} in "
                    f"{parameter}: all processes must load the same files with the same versions"
                )


def check_same(what: str, own: Any) -> None:
    """Raise TrainingError where `own`, which compares by ==, is not the same in all processes."""
    for place, other in enumerate(_gathered(own)):
        if other != own:
            raise TrainingError(
                f"{what} in process {index()} and in process {place} are not the same: give all "
                "processes the same configuration, files and versions"
            )


@dataclass(frozen=True)
class Parallelism:
    """What a learner really runs on, as found in its trainer and not in any setting."""

    processes: int
    kind: str
    """'ddp', 'fsdp', or 'single'."""
    device: str
    accelerate: str
    """How accelerate calls what it started: 'NO', 'MULTI_CPU', 'MULTI_GPU', 'FSDP', ..."""

    def __str__(self) -> str:
        if self.processes == 1:
            return f"1 process on {self.device}"
        backend = "nccl" if self.device == "cuda" else "gloo"
        return f"{self.processes} processes, {self.kind} over {backend} on {self.device}"


def check_started(found: Mapping[str, Parallelism], announced: int, wanted: str) -> None:
    """Raise TrainingError for a learner that does not run on the `announced` processes as `wanted`
    ('ddp' or 'fsdp').

    accelerate and TRL go on alone, or with DDP in place of FSDP, without a word.
    """
    for model, own in found.items():
        if own.processes != announced or count() != announced:
            raise TrainingError(
                f"{model}: {announced} process(es) were started, its trainer runs on "
                f"{own.processes} and the process group has {count()}: start with torchrun and no "
                "other launcher, and build no Accelerator before the run"
            )
        if announced > 1 and (own.kind != wanted or not own.accelerate.startswith("MULTI_")):
            raise TrainingError(
                f"{model}: {wanted} was asked for, {own.kind} was started ({own.accelerate} by "
                "accelerate): unset accelerate's settings in the environment (ACCELERATE_...)"
            )


def _announced() -> int:
    """How many processes the environment says there are."""
    if dist.is_initialized():
        return int(os.environ.get("WORLD_SIZE", dist.get_world_size()))
    text = os.environ.get("WORLD_SIZE", "1")
    try:
        return max(1, int(text))
    except ValueError:
        raise TrainingError(f"WORLD_SIZE is {text!r}: give a whole number, or unset it") from None


def _gathered(own: T) -> list[T]:
    """What each process has, in the order of the processes."""
    if count() == 1:
        return [own]
    if not dist.is_initialized():
        raise TrainingError(
            f"WORLD_SIZE is {count()} and the processes were never joined: start with torchrun"
        )
    every: list[Any] = [None] * count()
    dist.all_gather_object(every, own)
    return every


def _mark(parameter: Tensor) -> tuple[Any, ...]:
    """Equal for equal tensors, and different for others but for an absurd coincidence."""
    values = parameter.detach()
    return (
        tuple(values.shape),
        str(values.dtype),
        int(torch.hash_tensor(values).view(torch.int64)),  # of the bits, whatever their order
        float(values.double().sum()),
    )
