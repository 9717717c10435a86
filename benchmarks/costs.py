"""Time and memory of training, each measured in a separate process.

The child's side is `benchmarks.child`. Nothing here may import torch: Linux counts the memory of
the parent at the fork in the child's peak.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Any

from benchmarks.claim import Request, Result
from benchmarks.records import CONFIGS, ROOT, Estimate


@dataclass(frozen=True)
class Cost:
    """Wall time and CPU time (seconds), peak memory (bytes) and output of one process."""

    wall: float
    cpu: float
    peak_rss: int
    output: str


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return a child's environment variables: one thread, this checkout, and `extra`."""
    paths = [str(ROOT), *os.environ.get("PYTHONPATH", "").split(os.pathsep)]
    return {
        "OMP_NUM_THREADS": "1",
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in dict.fromkeys(paths) if path),
        **(extra or {}),
    }


def run(command: Sequence[str], extra: Mapping[str, str] | None = None) -> Cost:
    """Run a command; raise RuntimeError with the last lines of its errors if it fails."""
    began = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output, tempfile.TemporaryFile("w+") as errors:
        child = subprocess.Popen(command, stdout=output, stderr=errors, env=environment(extra))
        _, status, usage = os.wait4(child.pid, 0)  # Popen.wait does not return the usage.
        wall = time.perf_counter() - began
        child.returncode = os.waitstatus_to_exitcode(status)
        for stream in (output, errors):
            stream.seek(0)
        printed, complaints = output.read(), errors.read()
    if child.returncode:
        last = "\n".join(complaints.splitlines()[-5:])
        raise RuntimeError(f"exit code {child.returncode} from {' '.join(command)}:\n{last}")
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts bytes, Linux kilobytes.
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit, printed)


def round_seconds(settings: Mapping[str, Any]) -> tuple[list[list[float]], Cost]:
    """Call the function of `benchmarks.child` in a new process; return its result and the cost."""
    cost = run([sys.executable, "-m", "benchmarks.child", json.dumps(settings)])
    return json.loads(cost.output.splitlines()[-1]), cost


def demo_seeds(request: Request) -> Result:
    """Run `srl train` for every seed and method, with one thread; one row per run."""
    rows: list[dict[str, Any]] = []
    cache = request.folder / "cache"  # The first run also builds the embedded model.
    for seed in request.seeds:
        first_gain = 0.0
        for kind, own in request.claim.methods.items():
            built_before = cache.is_dir()
            out = request.folder / f"{kind}_{seed}"
            command = [sys.executable, "-m", "srl_train.cli", "train"]
            command += [str(CONFIGS / str(request.claim.config)), "--out", str(out)]
            command += ["--seed", str(seed), "--quiet"]
            for key, value in {**request.overrides, **own}.items():
                command += ["--set", f"{key}={json.dumps(value)}"]  # JSON is YAML.
            cost = run(command, {"CORE_SRL_CACHE": str(cache)})
            summary = json.loads((out / "summary.json").read_text(encoding="utf-8"))
            ends = [summary["evaluation"][when] for when in ("before", "after")]
            before, after = (Estimate(end["raw_reward"], end["standard_error"]) for end in ends)
            low, high = summary["baselines"]["uniform"], summary["baselines"]["optimum"]
            gain = after.mean - before.mean
            first_gain = first_gain or gain
            rows.append({
                "kind": kind, "seed": seed, "before": before, "after": after,
                "uniform": low, "optimum": high, "way": (after.mean - low) / (high - low),
                "of_full": gain / first_gain if first_gain else math.nan,
                "training_seconds": summary["seconds"],
                "wall_seconds": cost.wall, "cpu_seconds": cost.cpu,
                "peak_gb": cost.peak_rss / 1e9, "built": "" if built_before else " *",
            })  # fmt: skip
    return Result(rows, facts={name: rows[0][name] for name in ("uniform", "optimum")})


def scaling(request: Request) -> Result:
    """Measure the median CPU-seconds of a round; one row per method and size.

    The sizes are settings by name, of which the first is the unit of all `times`.
    """
    rows: list[dict[str, Any]] = []
    sizes = request.claim.options["sizes"]
    for method, (size, own) in itertools.product(request.claim.methods, sizes.items()):
        rounds, cost = round_seconds(request.settings(method, **own))
        rollout, training = map(median, zip(*rounds, strict=True))
        found = {
            "round": median(map(sum, rounds)), "rollout": rollout, "training": training,
            "rss_mb": cost.peak_rss / 1e6,
        }  # fmt: skip
        if size == next(iter(sizes)):
            first = found
        times = {name: value / first[name] for name, value in found.items()}
        rows.append({"method": method, "size": size, **found, "times": times})
    return Result(rows)
