"""Time and memory of this process: of the CPU, or of the accelerator where there is one."""

from __future__ import annotations

import resource
import sys
import time

import psutil
import torch


def place() -> str:
    """Where TRL trains: "cuda" where torch finds an accelerator, else "cpu"."""
    return "cuda" if torch.cuda.is_available() else "cpu"


def now() -> float:
    """Seconds: of this process's CPU time; on an accelerator the wall's, once it has no work."""
    if place() == "cpu":
        return time.process_time()
    torch.cuda.synchronize()
    return time.perf_counter()


def held_now() -> int:
    """Bytes of this process in memory now; on an accelerator those of its tensors."""
    if place() == "cpu":
        return psutil.Process().memory_info().rss
    return torch.cuda.memory_allocated()


def largest() -> int:
    """The most bytes that this process has had there."""
    if place() == "cuda":
        return torch.cuda.max_memory_allocated()
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
