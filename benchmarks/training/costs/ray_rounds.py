"""What rounds on a Ray cluster of this machine take beside those of one process.

The demo, once as the sequential loop and once with a player and a learner per model in actors, play
ahead of learning. Wall time, and CPU time of all processes, between the first round and the last.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from typing import Any

import psutil

from benchmarks.records import CONFIGS
from benchmarks.training.claim import Claim, Request, Result, Table, Target
from srl_train.config import yaml_file
from srl_train.config.run import RunConfig
from srl_train.build import build_run
from srl_extensions.play_ahead.schedule import rounds_of

LAST = 5
"""Rounds at the end of a run whose mean reward is compared."""
ENGINES: Mapping[str, Mapping[str, Any]] = {
    "one process, round after round": {"engine": {"name": "local"}},
    "Ray, play ahead": {"engine": {"name": "ray", "play_ahead": True}},
}


def measure(request: Request) -> Result:
    """One row per seed and engine."""
    rows: list[dict[str, Any]] = []
    for seed in request.seeds:
        for name, engine in ENGINES.items():
            settings = {"updates.max_staleness": 1, **request.overrides, **engine, "seed": seed}
            row = run_of(yaml_file.load(CONFIGS / "demo.yaml", settings))
            beside = rows[-1] if rows and rows[-1]["seed"] == seed else row
            rows.append(
                {
                    "seed": seed,
                    "engine": name,
                    **row,
                    "speedup": beside["wall"] / row["wall"],
                    "more_cpu": row["cpu"] / beside["cpu"],
                    "apart": abs(row["last"] - beside["last"]),
                }
            )
    return Result(rows, facts={"cores": psutil.cpu_count()})


def run_of(config: RunConfig) -> dict[str, float]:
    """Seconds of wall and CPU, reward of the last rounds, the oldest sample and those dropped."""
    run = build_run(config)
    told = []
    with (
        closing(run.players),
        closing(rounds_of(run, None, lambda number: False)) as rounds,
    ):
        for number in range(config.rounds):
            told.append(rounds.next_round().row)
            run.next_round = number + 1
            if number == 0:  # by then all that is made once is made
                began, spent = time.perf_counter(), cpu_seconds()
        wall, cpu = time.perf_counter() - began, cpu_seconds() - spent
    models = [model for row in told for model in row["models"].values()]
    return {
        "wall": wall,
        "cpu": cpu,
        "last": sum(row["environment"]["raw_reward"] for row in told[-LAST:]) / LAST,
        "oldest": max(model["staleness"]["max"] for model in models if model["staleness"]),
        "dropped": sum(model["samples_dropped_stale"] for model in told[-1]["models"].values()),
    }


def cpu_seconds() -> float:
    """Of this process and all that it started and that still run."""
    own = psutil.Process()
    times = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return sum(each.user + each.system for each in times)


RAY = Claim(
    measure,
    tables=[
        Table({
            "": "{engine}", "seed": "{seed}", "wall, s": "{wall:.1f}", "CPU-s": "{cpu:.1f}",
            "times as fast": "{speedup:.2f}", "CPU, times": "{more_cpu:.2f}",
            "last rounds": "{last:.4f}", "oldest sample, updates": "{oldest:.0f}",
            "dropped": "{dropped:.0f}",
        }),
    ],
    targets=[
        Target("on Ray, with play ahead, rounds take at most 1/1.2 of the time",
               "speedup", ">=", 1.2, "{:.2f} times as fast", {"engine": "Ray, play ahead"}),
        Target("no sample is older than an update", "oldest", "<=", 1.0, "{:.0f}"),
        Target("none is dropped", "dropped", "==", 0.0, "{:.0f}"),
        Target("the last rounds' reward is within .03 of the sequential loop's",
               "apart", "<=", 0.03, "{:.4f}", {"engine": "Ray, play ahead"}),
    ],
    legend="Seeds {seeds}; {cores} cores; all rounds but the first.",
)  # fmt: skip
