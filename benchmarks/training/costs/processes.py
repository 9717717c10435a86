"""Runs in a process of their own, and what they took.

Nothing here, nor in the commands that use it, may import torch: Linux counts the memory of the
parent at the moment of the fork into the child's peak.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.records import ROOT


@dataclass(frozen=True)
class Cost:
    """What one process took, from its start to its end."""

    wall: float
    """Seconds."""
    cpu: float
    """Seconds, of all its threads, user and system."""
    peak_rss: int
    """Bytes: its largest resident set."""
    output: str
    """What it printed."""


def srl(*words: str | Path) -> list[str]:
    """The `srl` command line for these words, with this interpreter."""
    return [sys.executable, "-m", "srl_train.cli", *map(str, words)]


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Of a child: this one's, able to import this checkout, on one thread if nothing is said."""
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        "OMP_NUM_THREADS": "1",
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in dict.fromkeys(paths) if path),
        **(extra or {}),
    }


def run(command: Sequence[str], extra: Mapping[str, str] | None = None) -> Cost:
    """Run to the end; raises RuntimeError with what it printed last if it fails."""
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, stdout=output, stderr=errors, env=environment(extra))
        _, status, usage = os.wait4(child.pid, 0)  # Popen's own wait does not tell the usage
        wall = time.perf_counter() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        for stream in (output, errors):
            stream.seek(0)
        printed, complaints = output.read(), errors.read()
    if child.returncode:
        last = "\n".join(complaints.splitlines()[-5:])
        raise RuntimeError(f"exit code {child.returncode} from {' '.join(command)}:\n{last}")
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit, printed)


def call(function: str, *arguments: Any) -> tuple[Any, Cost]:
    """What a function of `children` returns for these arguments, and what its process took."""
    module = "benchmarks.training.costs.children"
    cost = run([sys.executable, "-m", module, function, *map(json.dumps, arguments)])
    return json.loads(cost.output.splitlines()[-1]), cost
