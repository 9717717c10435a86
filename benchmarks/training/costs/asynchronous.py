"""Play that waits for nobody beside lock-step, and learning beside play, with slow answers.

Every answer takes a seeded log-normal time, median 20 ms, in which nothing is computed: as of a
model behind a server. The same agents' same games wait as long in every variant.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from benchmarks.records import CONFIGS
from benchmarks.training.claim import Claim, Request, Result, Table, Target
from benchmarks.training.runs import Settings, mean_return
from srl_agents.policy import AgentObservation, AsyncPolicy, Policy, waits
from srl_agents.rollout import play_many
from srl_agents.scripted import Uniform
from srl_envs import coop_compete_v0
from srl_train.config import yaml_file
from srl_train.samples import UpdateBatch
from srl_train.engines import Engine
from srl_train.run import Run
from srl_train.run import UpdateStats
from srl_train.metrics import read_metrics
from srl_train.trainer import Trainer
from srl_train.updates import RoundContext

MEDIAN, SPREAD = 0.02, 0.8
"""Of the time of an answer: seconds, and standard deviation of its logarithm."""
GAMES, TURNS = 16, 8
EXAMPLE = "demo.yaml"
SETTINGS: Settings = {
    "rollout.groups_per_round": 1,
    "rounds": 14,
    "updates.max_staleness": 1,
    "logging.evaluation_episodes": 0,
    "logging.episodes": 0,
    "checkpoints.every": 0,
}
PACED = 36
"""Rounds over which paces are measured: over fourteen they move by a tenth by themselves."""
SLOWER = 10
"""Times that the slow model's updates take as long."""
SLOW = "model_3"


class Waiting:
    """Another policy's decisions, each after a time of its own."""

    def __init__(self, inner: Policy, barrier: asyncio.Barrier | None = None) -> None:
        """With a barrier every game waits there at each turn until all others have come."""
        self._inner, self._barrier = inner, barrier

    def start(self, seed: int) -> Any:
        """What the other remembers, and the times to come."""
        return self._inner.start(seed), np.random.default_rng(seed)

    async def act(
        self, seen: Sequence[AgentObservation], states: Sequence[Any]
    ) -> tuple[list[Any], list[Any]]:
        """Decide, and wait for the slowest of these answers."""
        before, clocks = zip(*states, strict=True)
        if waits(self._inner):
            decisions, after = await self._inner.act(seen, before)
        else:
            decisions, after = self._inner.act(seen, before)
        await asyncio.sleep(max(clock.lognormal(np.log(MEDIAN), SPREAD) for clock in clocks))
        if self._barrier is not None:
            await self._barrier.wait()
        return decisions, list(zip(after, clocks, strict=True))

    def leave(self, state: Any) -> None:
        """Let the other forget."""
        if waits(self._inner):
            self._inner.leave(state[0])


class OneSlow(Engine):
    """The local engine; one model's updates take `SLOWER` times as long, computing nothing."""

    def update(
        self,
        run: Run,
        batches: Mapping[str, UpdateBatch],
        context: RoundContext,
        update_index: int,
        stats: Mapping[str, UpdateStats],
    ) -> dict[str, dict[str, Tensor]]:
        """See Engine."""
        began = time.perf_counter()
        before = super().update(run, batches, context, update_index, stats)
        if SLOW in batches:
            time.sleep((SLOWER - 1) * (time.perf_counter() - began))
        return before


def asynchronous(request: Request) -> Result:
    """One row per seed."""
    return Result([
        {"seed": seed, **_play(seed), **_learning(request, seed), **_paces(request, seed)}
        for seed in request.seeds
    ])  # fmt: skip


def _play(seed: int) -> dict[str, float]:
    """Seconds of 16 games of 8 turns and 4 agents: free, and with a barrier at every turn."""

    def seconds(barrier: asyncio.Barrier | None) -> float:
        make = partial(coop_compete_v0.parallel_env, num_agents=4, max_cycles=TURNS)
        policy: AsyncPolicy = Waiting(Uniform(), barrier)
        began = time.perf_counter()
        seats = dict.fromkeys(make().possible_agents, policy)
        play_many(make, seats, range(seed * GAMES, (seed + 1) * GAMES))
        return time.perf_counter() - began

    free, in_step = seconds(None), seconds(asyncio.Barrier(GAMES))
    return {"free": free, "lock_step": in_step, "free_ratio": free / in_step}


def _learning(request: Request, seed: int) -> dict[str, Any]:
    """The sequential loop and play ahead, on answers that take the same times."""
    in_turn = _trained(request, seed, "in_turn", {})
    ahead = _trained(request, seed, "ahead", {"engine.play_ahead": True})
    models = [model for row in ahead["rows"] for model in row["models"].values()]
    stale = [model["staleness"] for model in models if model["staleness"]]
    return {
        "in_turn": in_turn["seconds"],
        "ahead": ahead["seconds"],
        "speedup": in_turn["seconds"] / ahead["seconds"],
        "cpu_ratio": ahead["cpu"] / in_turn["cpu"],
        "overlap": sum(row["seconds"]["overlap"] for row in ahead["rows"]) / ahead["seconds"],
        "lag": sum(one["mean"] for one in stale) / len(stale),
        "most_lag": max(one["max"] for one in stale),
        "dropped": sum(one["samples_dropped_stale"] for one in models[-4:]),
        "return_in_turn": in_turn["return"],
        "return_ahead": ahead["return"],
        "apart": abs(ahead["return"] - in_turn["return"]),
    }


def _trained(request: Request, seed: int, name: str, settings: Settings) -> dict[str, Any]:
    with _trainer(request, seed, name, settings) as trainer:
        began, worked = time.perf_counter(), time.process_time()
        trainer.fit()
        seconds, cpu = time.perf_counter() - began, time.process_time() - worked
        return {
            "seconds": seconds,
            "cpu": cpu,
            "rows": read_metrics(trainer.files.metrics),
            "return": mean_return(trainer.run, 64),
        }


def _paces(request: Request, seed: int) -> dict[str, float]:
    """Updates per second of the other models, beside a slow one and without."""
    paces = []
    for name, engine in {"equal": Engine(), "one_slow": OneSlow()}.items():
        with _trainer(request, seed, name, {"engine.play_ahead": True, "rounds": PACED}) as trainer:
            trainer.run.engine = engine
            trainer.train_round()  # the first pays for what is built once
            began, done = time.perf_counter(), trainer.run.versions["model_0"]
            for _ in range(trainer.run.config.rounds - 2):  # at the last all are waited for
                trainer.train_round()
            passed = time.perf_counter() - began
            paces.append((trainer.run.versions["model_0"] - done) / passed)
            slow = trainer.run.versions[SLOW]
    return {
        "pace": paces[0],
        "pace_beside": paces[1],
        "pace_ratio": paces[1] / paces[0],
        "slow_updates": float(slow),
    }


def _trainer(request: Request, seed: int, name: str, settings: Settings) -> Trainer:
    given = {**SETTINGS, **request.overrides, **settings, "seed": seed}
    trainer = Trainer(yaml_file.load(CONFIGS / EXAMPLE, given), request.folder / f"{name}_{seed}")
    run = trainer.run
    waiting = {policy: Waiting(policy) for policy in run.policies.values()}
    run.policies = {agent: waiting[policy] for agent, policy in run.policies.items()}
    return trainer


ASYNCHRONOUS = Claim(
    measure=asynchronous,
    writes_runs=True,
    tables=[
        Table({
            "seed": "{seed}", "free play, s": "{free:.2f}", "lock-step, s": "{lock_step:.2f}",
            "ratio": "{free_ratio:.2f}",
        }, "Sixteen games of eight turns and four agents"),
        Table({
            "seed": "{seed}", "in turn, s": "{in_turn:.1f}", "play ahead, s": "{ahead:.1f}",
            "times as fast": "{speedup:.2f}", "CPU seconds, ratio": "{cpu_ratio:.2f}",
            "overlap": "{overlap:.0%}",
            "lag, mean (most)": "{lag:.2f} ({most_lag})",
            "dropped": "{dropped}",
            "return in turn": "{return_in_turn:.3f}", "ahead": "{return_ahead:.3f}",
        }, "Fourteen rounds of four models, staleness 1"),
        Table({
            "seed": "{seed}", "updates/s": "{pace:.2f}", "beside a slow one": "{pace_beside:.2f}",
            "ratio": "{pace_ratio:.2f}", "the slow one's updates": "{slow_updates:.0f}",
        }, "Pace of a model, alone among equals and beside one that takes ten times as long"),
    ],
    targets=[
        Target("free play takes at most .7 of lock-step's time",
               "free_ratio", "<=", 0.7, "{:.2f}"),
        Target("staleness 1: play ahead is at least 1.2 times as fast",
               "speedup", ">=", 1.2, "{:.2f}"),
        Target("no sample is older than 1 update", "most_lag", "<=", 1),
        Target("nothing is dropped", "dropped", "==", 0),
        Target("final returns are within .1 of each other", "apart", "<=", 0.1, "{:.3f}"),
        Target("a model ten times slower leaves the others' pace within 10 %",
               "pace_ratio", ">=", 0.9, "{:.2f}"),
    ],
    legend="Answers take log-normal times, median 20 ms, sigma .8; models are embedded ones, in "
    "one process. The slow model waits: it takes nobody's processor.",
)  # fmt: skip
