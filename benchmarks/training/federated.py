"""Federated averaging: what a tenth of the communication costs in return."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.training.claim import Claim, Request, Result, Table, Target
from benchmarks.training.runs import Settings, mean_return, trained
from srl_agents.evaluation.bootstrap import mean_interval
from srl_train.metrics import read_metrics

GAME = "demo.yaml"
DILOCO = "every 10 rounds, DiLoCo"
MEETINGS: Mapping[str, Settings] = {
    "every round": {"updates": {"strategy": "federated"}},
    DILOCO: {"updates": {"strategy": "federated", "period": 10, "server": {"name": "diloco"}}},
}
"""When models meet -> the settings that make it; the others are compared with the first."""
SMALL: Settings = {
    "environment.options.max_cycles": 2,
    "rollout.group_size": 8,
    "rollout.groups_per_round": 1,
    "algorithm.learning_rate": 3e-4,
    "algorithm.schedule": "constant",
    "rounds": 30,
    "logging.evaluation_episodes": 0,
    "checkpoints.every": 0,
}
"""Rounds of few short games and small steps, so that the game is not learned to its end."""


def communication(request: Request, meetings: Mapping[str, Settings] = MEETINGS) -> Result:
    """One row per seed and variant, then one per variant with its loss over all seeds."""
    rows: list[dict[str, Any]] = []
    exams = {"after": lambda run: mean_return(run, request.games)}
    variants = {name: {**SMALL, **own} for name, own in meetings.items()}
    for run in trained(request, GAME, exams, variants):
        told = read_metrics(Path(run["out"]) / "metrics.jsonl")
        row = {
            **run,
            "seeds": "each",
            "sent": sum(one.get("communicated_bytes", 0) for one in told) / 1e6,
        }
        if run["variant"] == next(iter(meetings)):
            first = row
        gain = first["after"] - first["before"]
        row["share"] = row["sent"] / first["sent"]
        row["loss"] = (first["after"] - row["after"]) / gain
        rows.append(row)
    return Result([*rows, *(_over_seeds(name, rows) for name in list(meetings)[1:])])


def _over_seeds(name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    own = [row for row in rows if row["variant"] == name]
    mean, low, high = mean_interval([row["loss"] for row in own])
    share = max(row["share"] for row in own)
    found = {"share": share, "loss": mean, "low": low, "high": high}
    return {"seeds": "all", "all_seeds": name, **found}


FEDERATED_COMMUNICATION = Claim(
    communication,
    tables=[
        Table(
            {
                "models meet": "{variant}",
                "seed": "{seed}",
                "return before": "{before:.4f}",
                "after": "{after:.4f}",
                "MB exchanged": "{sent:.1f}",
                "of every round's": "{share:.0%}",
                "gain lost": "{loss:+.1%}",
            },
            where={"seeds": "each"},
        ),
        Table(
            {
                "models meet": "{all_seeds}",
                "of every round's": "{share:.0%}",
                "gain lost, mean of the seeds": "{loss:+.1%}",
                "95 % interval": "{low:+.1%} to {high:+.1%}",
            },
            where={"seeds": "all"},
        ),
    ],
    targets=[
        Target("{all_seeds} exchanges at most a tenth", "share", "<=", 0.1, "{:.0%}",
               {"all_seeds": DILOCO}),
        Target("{all_seeds}: the 95 % interval of the gain lost includes 0 or ends below it",
               "low", "<=", 0.0, "from {:+.1%}", {"all_seeds": DILOCO}),
        Target("{all_seeds}: less than 10 % of the gain is lost, mean of the seeds",
               "loss", "<", 0.1, "{:+.1%}", {"all_seeds": DILOCO}),
    ],
    legend="Raw return per agent and game, in {games} games that no round plays, of four models "
    "that each learn from eight short games a round, 30 rounds. Gain lost: what the models earn "
    "less than those that meet every round, as a share of what those gained. Bytes are those of "
    "the weights, up and down. Interval: Student's t over the seeds.",
    games=64,
    writes_runs=True,
)  # fmt: skip
