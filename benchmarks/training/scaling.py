"""What a round costs with one to eight models at once, in time and memory.

python -m benchmarks.training.scaling [--counts 1 2 4 8] [--rounds 4]

The embedded model in coop_compete_v0, as many seats as models, so that every model plays and
trains on equally much. Each number of models is a process of its own. Exit code 1 if a target is
missed.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from statistics import median
from typing import Any

from benchmarks.training import processes, records
from benchmarks.training.records import Check

SETTING: Mapping[str, Any] = {
    "environment.name": "coop_compete_v0",
    "rollout.group_size": 8,
    "rollout.groups_per_round": 2,
    "logging.evaluation_episodes": 0,
    "checkpoints.every": 0,
}
TURNS = 8
SLACK = 1.1  # of what n models may take, in times of n single ones


def measure(
    counts: Sequence[int], rounds: int, setting: Mapping[str, Any] = SETTING
) -> dict[str, Any]:
    """{number of models: {"round", "rollout", "train" (median seconds), "peak_rss" (bytes)}}."""
    runs = {}
    for count in counts:
        own = {
            **setting,
            "models.count": count,
            "environment.options": {"num_agents": count, "max_cycles": TURNS},
            "rounds": rounds,
        }
        command = [sys.executable, "-m", "benchmarks.training.round_seconds", json.dumps(own)]
        cost = processes.run(command)
        seconds = json.loads(cost.output.splitlines()[-1])
        runs[str(count)] = {
            **{part: median(values) for part, values in seconds.items()},
            "peak_rss": cost.peak_rss,
        }
    return {"rounds": rounds, "runs": runs}


def checks(result: Mapping[str, Any]) -> list[Check]:
    """The time of a round grows at most linearly."""
    first, *_, last = result["runs"]
    ratio = result["runs"][last]["round"] / result["runs"][first]["round"]
    times = int(last) / int(first)
    return [
        Check(
            f"a round with {last} models takes at most {times:g} times one with {first}",
            ratio <= SLACK * times,
            f"{ratio:.2f} times",
        )
    ]


def markdown(result: Mapping[str, Any]) -> str:
    """One row per number of models."""
    [smallest, *_] = result["runs"].values()
    rows = [
        (
            count,
            *(f"{run[part]:.2f}" for part in ("round", "rollout", "train")),
            f"{run['round'] / smallest['round']:.2f}",
            f"{run['peak_rss'] / 1e6:.0f}",
        )
        for count, run in result["runs"].items()
    ]
    headers = (
        "models", "a round, s", "of it rollout, s", "of it training, s", "times the first",
        "peak RSS, MB",
    )  # fmt: skip
    return (
        f"{records.table(headers, rows)}\n\nMedians of {result['rounds'] - 1} rounds, after one to "
        f"warm up; 16 games of {TURNS} turns a round, one seat per model. Peak RSS is that of the "
        f"whole process.\n\n{records.listed(checks(result))}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, keep."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--counts", type=int, nargs="+", default=[1, 2, 4, 8])
    parser.add_argument("--rounds", type=int, default=4, help="the first one warms up")
    records.add_arguments(parser)
    asked = parser.parse_args(arguments)
    result = measure(asked.counts, asked.rounds)
    records.keep("scaling", result, markdown(result), asked)
    return 0 if all(check.held for check in checks(result)) else 1


if __name__ == "__main__":
    raise SystemExit(main())
