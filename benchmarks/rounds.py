"""Time of rounds: next to bare TRL, and on a Ray cluster."""

from __future__ import annotations

import gc
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

import psutil
from torch import Tensor

from benchmarks.bare_trl import BareTrainer, Update
from benchmarks.claim import Request, Result
from benchmarks.records import Repeats, in_turns, ratios
from benchmarks.runs import build_env
from srl_agents.episode import Episode
from srl_train.build import build_run
from srl_train.config.run import RunConfig
from srl_train.loading import SamplerStart, build_backends
from srl_train.round import learn_round, plan_round, play
from srl_train.schedule import build_schedule


def round_cost(request: Request) -> Result:
    """Measure rounds on recorded episodes next to TRL's `train()` on the same samples.

    A run is played once and recorded. Then, in turns: our rounds without the play, and for each
    model TRL's training on the samples that its learner received. Both sides must end with the
    same weights but for rounding: our learner computes logits for the answers' tokens alone.
    """
    config, repeats = request.config(), request.claim.options["repeats"]
    episodes, updates = record(config)
    loops: list[float] = []
    weights: dict[str, list[Tensor]] = {}
    difference = 0.0

    def measured(side: str, _: int) -> float:
        nonlocal difference
        if side == "ours":
            spent, weights[side] = replay(config, episodes)
        else:
            spent, loop, weights[side] = train_bare(config, updates)
            loops.append(loop)
        if len(weights) == 2:
            pairs = zip(weights.pop("ours"), weights.pop("bare"), strict=True)
            difference = max(difference, *(float((a - b).abs().max()) for a, b in pairs))
        return spent

    sides = {side: partial(measured, side) for side in ("bare", "ours")}
    seconds = in_turns(sides, repeats, warm_ups=1)
    shown = {
        "our rounds without the play": seconds["ours"],
        "GRPOTrainer.train(), whole": seconds["bare"],
        "GRPOTrainer.train(), its loop alone": Repeats(loops[1:]),
    }
    rows = []
    for side, spent in shown.items():
        times = ratios(seconds["ours"], spent)
        rows.append({
            "side": side, "seconds": spent, "times": times, "overhead": times.middle - 1.0,
            "difference": difference,
        })  # fmt: skip
    facts = {
        "rounds": config.rounds,
        "models": len(updates),
        "samples": sum(len(samples) for own in updates.values() for samples, _ in own),
        "repeats": repeats,
    }
    return Result(rows, facts=facts)


def record(config: RunConfig) -> tuple[list[list[Episode]], dict[str, list[Update]]]:
    """Train as configured; return the episodes of each round, and model -> its updates."""
    run = build_run(config)
    episodes: list[list[Episode]] = []
    updates: dict[str, list[Update]] = {}
    for name, learner in run.learners.items():
        _keep_updates(learner, updates.setdefault(name, []))
    for number in range(config.rounds):
        episodes.append(play(run, plan_round(run, number)))
        learn_round(run, number, episodes[-1], 0.0)
        run.next_round = number + 1
    return episodes, updates


def _keep_updates(learner: Any, kept: list[Update]) -> None:
    inner = learner.begin_update
    learner.begin_update = lambda *arguments: kept.append(arguments[:2]) or inner(*arguments)


def replay(config: RunConfig, recorded: Sequence[list[Episode]]) -> tuple[float, list[Tensor]]:
    """Train a new run on recorded episodes, by round; return CPU seconds and final weights."""
    run = build_run(config)
    gc.collect()
    spent = 0.0
    for number, episodes in enumerate(recorded):
        began = time.process_time()
        learn_round(run, number, episodes, 0.0)
        run.next_round = number + 1
        spent += time.process_time() - began
    weights = [learner.weights() for learner in run.learners.values()]
    return spent, [own[name].detach() for own in weights for name in sorted(own)]


def train_bare(
    config: RunConfig, updates: Mapping[str, Sequence[Update]]
) -> tuple[float, float, list[Tensor]]:
    """Train with TRL on recorded updates of each model.

    Returns CPU seconds of train(), CPU seconds of its loop alone, and the final weights.
    """
    spent = loop = 0.0
    weights: list[Tensor] = []
    players = build_backends(config, SamplerStart(partial(build_env, config)))
    for name, own in updates.items():
        tokenizer = players.backends[name].tokenizer
        trainer = BareTrainer(players.modules[name], tokenizer, config, own)
        gc.collect()
        began = time.process_time()
        trainer.train()
        spent += time.process_time() - began
        loop += trainer.loop_seconds
        final = trainer.weights()
        weights += (final[key] for key in sorted(final))
    return spent, loop, weights


LAST = 5
"""Rounds at the end of a run whose mean reward is compared."""


def ray(request: Request) -> Result:
    """Measure every engine between the first round and the last, compared with the first one.

    "wall" is wall time, "cpu" the CPU time of all processes.
    """
    rows: list[dict[str, Any]] = []
    for seed in request.seeds:
        for name in request.claim.methods:
            row = _timed_run(request.config({**request.settings(name), "seed": seed}))
            first = rows[-1] if rows and rows[-1]["seed"] == seed else row
            rows.append({
                "seed": seed, "engine": name, **row,
                "speedup": first["wall"] / row["wall"],
                "more_cpu": row["cpu"] / first["cpu"],
                "apart": abs(row["last"] - first["last"]),
            })  # fmt: skip
    return Result(rows, facts={"cores": psutil.cpu_count()})


def _timed_run(config: RunConfig) -> dict[str, float]:
    run = build_run(config)
    found = []
    with closing(run.players), closing(build_schedule(run, lambda number: False)) as schedule:
        for number in range(config.rounds):
            found.append(schedule.next_round().row)
            run.next_round = number + 1
            if number == 0:  # The first round includes one-time construction.
                began, spent = time.perf_counter(), _cpu_seconds()
        wall, cpu = time.perf_counter() - began, _cpu_seconds() - spent
    models = [model for row in found for model in row["models"].values()]
    return {
        "wall": wall,
        "cpu": cpu,
        "last": sum(row["environment"]["raw_reward"] for row in found[-LAST:]) / LAST,
        "oldest": max(model["staleness"]["max"] for model in models if model["staleness"]),
        "dropped": sum(model["samples_dropped_stale"] for model in found[-1]["models"].values()),
    }


def _cpu_seconds() -> float:
    """Return the CPU time of this process and its running descendants."""
    own = psutil.Process()
    times = [each.cpu_times() for each in (own, *own.children(recursive=True))]
    return sum(each.user + each.system for each in times)
