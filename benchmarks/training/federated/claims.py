"""Federated averaging: the cost of rare means in return, the error of means of adapters."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks.records import CONFIGS
from benchmarks.training.claim import Claim, Request, Result, Table, Target
from benchmarks.training.federated import signals
from benchmarks.training.runs import Settings, assembled, rounds_of, trained
from benchmarks.training.unseen.exam import HeldOut
from srl_agents.episode import Episode
from srl_train.config import yaml_file
from srl_train.metrics import read_metrics
from srl_train.updates import RoundContext, Tensors

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
ADAPTERS: Settings = {
    "environment.options.max_cycles": 2,
    "rollout.group_size": 8,
    "rollout.groups_per_round": 1,
    "models.adapters": {"rank": 4},
    "algorithm.learning_rate": 3e-3,
    "algorithm.schedule": "constant",
    "algorithm.minibatches": 4,
    "updates.strategy": "federated",
    "updates.period": 2,
    "rounds": 4,
    "logging.evaluation_episodes": 0,
    "checkpoints.every": 0,
}
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


def adapters(request: Request) -> Result:
    """One row per seed, number of the mean and way of averaging: its error in product space.

    Four adapters are trained apart for eight steps before each mean; what each way would make of
    the weights that they have then is compared with the mean of their products B A.
    """
    rows = []
    for seed in request.seeds:
        for trained_factors, ways in ADAPTER_WAYS.items():
            settings = {**ADAPTERS, "updates.adapters": trained_factors, "seed": seed}
            for number, own in enumerate(_before_means(request, settings), start=1):
                expected = {layer: mean_product(parts) for layer, parts in layers(own).items()}
                for name, way in ways.items():
                    errors = [
                        float((way(parts) - expected[layer]).norm() / expected[layer].norm())
                        for layer, parts in layers(own).items()
                    ]
                    rows.append({
                        "way": name, "seed": seed, "mean": number,
                        "least": min(errors), "most": max(errors),
                    })  # fmt: skip
    return Result(rows)


def _before_means(request: Request, settings: Settings) -> list[list[Mapping[str, Tensor]]]:
    """The models' adapters as they were just before each mean of a run."""
    config = yaml_file.load(CONFIGS / EXAMPLE, {**settings, **request.overrides})
    found: list[list[Mapping[str, Tensor]]] = []
    with assembled(config) as run:
        merge = run.strategy.on_weights

        def on_weights(before: Tensors, after: Tensors, state: Any, context: RoundContext) -> Any:
            own = [{n: t.double() for n, t in one.items()} for one in after.values() if one]
            taken, later = merge(before, after, state, context)
            if later["rounds"] == 0:
                found.append(own)
            return taken, later

        run.strategy = run.strategy._replace(on_weights=on_weights)
        for _ in rounds_of(run):
            pass
    return found


def layers(models: Sequence[Mapping[str, Tensor]]) -> dict[str, Factors]:
    """Layer -> (B, A) of each model."""
    names = [name for name in models[0] if ".lora_A." in name]
    return {
        name: [(own[name.replace(".lora_A.", ".lora_B.")], own[name]) for own in models]
        for name in names
    }


def mean_product(parts: Factors) -> Tensor:
    """The mean of B A."""
    return torch.stack([b @ a for b, a in parts]).mean(0)


def product_of_means(parts: Factors) -> Tensor:
    """The mean of B times the mean of A, in float32 as the strategy takes them."""
    means = [torch.stack([one.float() for one in own]).mean(0) for own in zip(*parts, strict=True)]
    return means[0].double() @ means[1].double()


def truncated(parts: Factors) -> Tensor:
    """What is nearest to the mean of B A at the adapters' own rank (Eckart & Young 1936)."""
    u, s, v = torch.linalg.svd(mean_product(parts), full_matrices=False)
    rank = parts[0][1].shape[0]
    return (u[:, :rank] * s[:rank]) @ v[:rank]


Factors = Sequence[tuple[Tensor, Tensor]]
"""(B, A) of each model, of one layer."""
ADAPTER_WAYS: Mapping[str, Mapping[str, Callable[[Factors], Tensor]]] = {
    "factors": {"A and B apart": product_of_means, "truncated SVD": truncated},
    "alternating": {"one factor shared": product_of_means},
}
"""`updates.adapters` of a run -> ways of averaging what it has trained."""


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
FEDERATED_ADAPTERS = Claim(
    adapters,
    tables=[
        Table(
            {
                "averaged": "{way}",
                "mean": "{mean}",
                "error, least of the layers": "{least:.1e}",
                "most": "{most:.1e}",
            },
            over_seeds=("way", "mean"),
        )
    ],
    targets=[
        Target("with {way} the error is below 1e-4", "most", "<", 1e-4, "{:.1e}",
               {"way": "one factor shared"}),
    ],
    legend="Seeds {seeds}: mean (least to greatest). Four adapters of rank 4, trained apart for "
    "eight steps before each mean. Error: Frobenius norm of the difference from the mean of the "
    "products B A, as a share of that mean's, layer by layer.",
)  # fmt: skip
