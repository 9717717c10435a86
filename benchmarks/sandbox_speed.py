"""How many programs a second the sandbox runs and judges.

    python -m benchmarks.sandbox_speed [--runs 1000] [--workers 2] [--without namespaces ...]
                                       [--docs docs/results.md]

Honest runs of a solution with four tests, one thread per worker, after a warm-up of all workers.
Without --docs the result is printed only.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from benchmarks.training.records import pasted
from srl_envs.sandbox import FEATURES, Call, Limits, Sandbox, Test

SOURCE = """
def f(numbers):
    best = [0]
    for i, n in enumerate(numbers):
        best.append(max(best[-1], n + best[max(0, i - 1)]))
    return best[-1]
"""
TESTS = (
    Test(Call("f", ([2, 7, 9, 3, 1],)), 12),
    Test(Call("f", ([5, 5, 10, 100, 10, 5],)), 110),
    Test(Call("f", ([-1, -2],)), 0),
    Test(Call("f", (list(range(50)),)), 625),
)
SECTION = "sandbox_speed"


@dataclass(frozen=True)
class Speed:
    """What was measured."""

    protections: str
    runs: int
    workers: int
    per_second: float
    median: float
    """Milliseconds from the call to the verdict."""
    slowest: float
    """Milliseconds."""

    def __str__(self) -> str:
        return (
            f"{self.runs} runs of 4 tests, {self.workers} workers, {os.cpu_count()} cores: "
            f"{self.per_second:.0f} a second; median {self.median:.1f} ms, slowest "
            f"{self.slowest:.0f} ms ({self.protections})"
        )


def measure(runs: int, workers: int, without: Sequence[str] = ()) -> Speed:
    """Run and judge; raises AssertionError for a run that does not pass all its tests."""

    def judged(_: int) -> float:
        started = time.perf_counter()
        report = sandbox.check(SOURCE, TESTS)
        assert report.all_passed, report
        return (time.perf_counter() - started) * 1000

    with (
        Sandbox(Limits(), workers=workers, without=without) as sandbox,
        ThreadPoolExecutor(workers) as threads,
    ):
        list(threads.map(judged, range(20 * workers)))
        started = time.perf_counter()
        times = list(threads.map(judged, range(runs)))
        taken = time.perf_counter() - started
        protections = str(sandbox.protections())
    return Speed(protections, runs, workers, runs / taken, statistics.median(times), max(times))


def main(arguments: Sequence[str] | None = None) -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--without", nargs="*", default=[], choices=FEATURES)
    parser.add_argument("--docs", type=Path)
    chosen = parser.parse_args(arguments)
    speed = measure(chosen.runs, chosen.workers, chosen.without)
    print(speed)
    if chosen.docs is not None:
        text = chosen.docs.read_text(encoding="utf-8")
        chosen.docs.write_text(pasted(text, SECTION, str(speed)), encoding="utf-8")


if __name__ == "__main__":
    main()
