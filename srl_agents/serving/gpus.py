"""GPUs of this machine: index, memory, and what of it is free, as nvidia-smi tells."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass

from srl_agents.errors import ServingError

TIMEOUT = 60.0  # seconds; a driver that wakes up takes some


@dataclass(frozen=True)
class Gpu:
    """One GPU."""

    index: int
    """As nvidia-smi counts: by the place on the bus."""
    memory_gib: float
    free_gib: float
    """What no process takes."""


def find_gpus(environment: Mapping[str, str] = os.environ) -> list[Gpu]:
    """The GPUs that this process may use; none where there is no nvidia-smi.

    CUDA_VISIBLE_DEVICES of the environment limits them. Raises ServingError where nvidia-smi fails.
    """
    program = shutil.which("nvidia-smi", path=environment.get("PATH"))
    if program is None:
        return []
    asked = "--query-gpu=index,uuid,memory.total,memory.free"
    done = subprocess.run(
        [program, asked, "--format=csv,noheader,nounits"],
        capture_output=True, text=True, timeout=TIMEOUT, check=False,
    )  # fmt: skip
    if done.returncode:
        said = (done.stdout + done.stderr).strip().splitlines()[-1:]
        raise ServingError(
            f"nvidia-smi failed ({done.returncode}): {' '.join(said)}; mend the driver, or set "
            "CUDA_VISIBLE_DEVICES to nothing and take nvidia-smi off PATH to serve on the CPU"
        )
    visible = environment.get("CUDA_VISIBLE_DEVICES")
    found = []
    for line in done.stdout.splitlines():
        try:
            index, uuid, total, free = line.split(", ")
            gpu = Gpu(int(index), float(total) / 1024, float(free) / 1024)
        except ValueError as error:
            raise ServingError(f"nvidia-smi does not tell a GPU's memory: {line!r}") from error
        if visible is None or _among(visible, index, uuid):
            found.append(gpu)
    return found


def _among(visible: str, index: str, uuid: str) -> bool:
    """Whether CUDA_VISIBLE_DEVICES names a GPU, by its index or the beginning of its id."""
    names = [name.strip() for name in visible.split(",") if name.strip()]
    return any(name == index or uuid.startswith(name) for name in names)
