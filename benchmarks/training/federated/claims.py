"""Federated averaging: the cost in return of averaging every few rounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.training.claim import Claim, Request, Result, Table, Target
from benchmarks.training.federated import signals
from benchmarks.training.runs import Settings, trained
from benchmarks.training.unseen.exam import HeldOut
from srl_agents.episode import Episode
from srl_train.metrics import read_metrics

EXAMPLE = "demo.yaml"
EVERY, PLAIN, DILOCO, NEVER = (
    "every round", "every 10 rounds, plain mean", "every 10 rounds, DiLoCo", "never",
)  # fmt: skip
MEETINGS: Mapping[str, Settings] = {
    EVERY: {"updates": {"strategy": "federated"}},
    PLAIN: {"updates": {"strategy": "federated", "period": 10}},
    DILOCO: {"updates": {"strategy": "federated", "period": 10, "server": {"name": "diloco"}}},
    NEVER: {"updates": {"strategy": "asynchronous"}},
}
"""When models meet -> the settings that make it; the others are compared with the first."""
PARTS: Settings = {
    "environment": {"name": "benchmarks.training.federated.signals:Signals"},
    "models": {"count": signals.AGENTS, "base": "tiny", "constrained": True},
    "mode": {"name": "raw"},
    "credit": {"name": "agent_turn"},
    "rollout": {"group_size": 8, "groups_per_round": 2},
    "algorithm.scale_rewards": "group",
    # Half of what suits plain means: DiLoCo's outer momentum makes up to seven ways of one.
    "algorithm.learning_rate": 7.5e-4,
    "algorithm.schedule": "constant",
    # Else some runs settle on one colour for a signal before the right one was tried.
    "algorithm.trl": {"entropy_coef": 0.1},
    "rounds": 200,
    "logging.evaluation_episodes": 0,
    "checkpoints.every": 0,
}
"""Each model is shown its own part of the signals, and asked about all of them afterwards."""
"""Two rounds of four steps each between two means."""


def communication(request: Request, meetings: Mapping[str, Settings] = MEETINGS) -> Result:
    """One row per seed and variant."""
    rows: list[dict[str, Any]] = []
    every_signal = HeldOut(partial(signals.Signals, parts=False), range(request.games), share_right)
    variants = {name: {**PARTS, **own} for name, own in meetings.items()}
    for run in trained(request, EXAMPLE, {"after": every_signal}, variants):
        told = read_metrics(Path(run["out"]) / "metrics.jsonl")
        row = {
            **run,
            "before": run["before"]["right"],
            "after": run["after"]["right"],
            "sent": sum(one.get("communicated_bytes", 0) for one in told) / 1e6,
        }
        if run["variant"] == next(iter(meetings)):
            first = row
        gain = first["after"] - first["before"]
        row["share"] = row["sent"] / first["sent"]
        row["loss"] = (first["after"] - row["after"]) / gain if gain else math.nan
        rows.append(row)
    return Result(rows)


def share_right(episodes: Sequence[Episode]) -> dict[str, float]:
    """The share of right answers, of all agents."""
    paid = [step.reward for episode in episodes for turn in episode.turns for step in turn]
    return {"right": sum(paid) / len(paid)}


FEDERATED_COMMUNICATION = Claim(
    communication,
    tables=[
        Table(
            {
                "models meet": "{variant}",
                "seed": "{seed}",
                "right before": "{before:.1%}",
                "after": "{after:.1%}",
                "MB exchanged": "{sent:.1f}",
                "of every round's": "{share:.0%}",
                "gain lost": "{loss:+.1%}",
                "CPU-s": "{cpu_seconds:.0f}",
            }
        ),
        Table(
            {
                "models meet": "{variant}",
                "of every round's": "{share:.0%}",
                "gain lost, mean of the seeds": "{loss.interval.mean:+.1%}",
                "95 % interval": "{loss.interval.low:+.1%} to {loss.interval.high:+.1%}",
            },
            over_seeds=("variant",),
        ),
    ],
    targets=[
        target
        for name in (PLAIN, DILOCO)
        for target in (
            Target("{variant}: at most a tenth is exchanged", "share", "<=", 0.1, "{:.0%}",
                   {"variant": name}),
            Target("{variant}: the gain is that of meeting every round within 10 % "
                   "(two one-sided t tests at 5 %)",
                   "loss.equal_within", "<=", 0.1, "within {:.1%}", {"variant": name},
                   ("variant",)),
            Target("{variant}: less than 10 % of the gain is lost, on every seed",
                   "loss", "<", 0.1, "{:+.1%}", {"variant": name}),
        )
    ] + [
        Target("models that never meet lose at least 30 % of the gain, on every seed",
               "loss", ">=", 0.3, "{:+.1%}", {"variant": NEVER}),
    ],
    legend="Share of right answers to all signals, in {games} games of two models that are each "
    "shown one half of the signals in training: whoever knows that half alone gets half of all "
    "right, and some of the rest by chance. Gain lost: what the models get right less than those "
    "that meet every round, as a share of what those gained. Bytes are those of the weights, up "
    "and down. Interval: Student's t over the seeds.",
    games=64,
    writes_runs=True,
)  # fmt: skip
