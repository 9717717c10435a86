"""Throughput of the sandbox in graded programs per second.

    python -m benchmarks.sandbox_speed [--runs 1000] [--workers 2] [--markdown FILE]

Each program is a correct solution with four tests, and each worker has one thread.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from benchmarks import records
from srl_envs.sandbox import Limits, Sandbox, SandboxCall, Test

SOURCE = """
def f(numbers):
    best = [0]
    for i, n in enumerate(numbers):
        best.append(max(best[-1], n + best[max(0, i - 1)]))
    return best[-1]
"""
TESTS = (
    Test(SandboxCall("f", ([2, 7, 9, 3, 1],)), 12),
    Test(SandboxCall("f", ([5, 5, 10, 100, 10, 5],)), 110),
    Test(SandboxCall("f", ([-1, -2],)), 0),
    Test(SandboxCall("f", (list(range(50)),)), 625),
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, print and record."""
    parser = records.parser(__doc__)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args(arguments)
    runs, workers = options.runs, options.workers

    def judged(_: int) -> float:
        started = time.perf_counter()
        report = sandbox.check(SOURCE, TESTS)
        assert report.all_passed, report
        return (time.perf_counter() - started) * 1000

    with Sandbox(Limits(), workers=workers) as sandbox, ThreadPoolExecutor(workers) as threads:
        list(threads.map(judged, range(20 * workers)))
        started = time.perf_counter()
        times = list(threads.map(judged, range(runs)))
        taken = time.perf_counter() - started
        text = (
            f"{runs} runs of 4 tests, {workers} workers: {runs / taken:.0f} a second; median "
            f"{statistics.median(times):.1f} ms, slowest {max(times):.0f} ms "
            f"({sandbox.protections()})"
        )
    records.keep(text, options)


if __name__ == "__main__":
    main()
