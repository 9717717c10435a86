"""Rounds on an accelerator: speed and memory of real sizes of models.

Nothing here may import torch, see `processes`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from benchmarks.training.claim import Claim, Request, Result, Table, Target
from benchmarks.training.costs import processes
from benchmarks.training.costs.claims import A_ROUND, TURNS, Settings
from srl_train.errors import ConfigError

ON_IT: Settings = {
    **A_ROUND,
    # A model with random weights writes nothing legal of its own, and then learns nothing.
    "models.constrained": True,
    "models.device": "cuda",
    "rounds": 3,
}
ADAPTERS = {"rank": 16}


@dataclass(frozen=True)
class Case:
    """Models that are trained together: so many, on a Qwen2 of this shape with random weights."""

    layers: int
    width: int
    count: int
    dtype: str
    adapters: bool


CASES = (
    Case(24, 1024, 4, "float32", adapters=False),
    Case(24, 1024, 4, "bfloat16", adapters=True),
    Case(24, 2048, 1, "bfloat16", adapters=True),
    Case(24, 2048, 8, "bfloat16", adapters=True),
    Case(32, 4096, 8, "bfloat16", adapters=True),
)


def accelerator(request: Request, cases: Sequence[Case] = CASES) -> Result:
    """One row per case, in a process of its own. The game always has as many agents as the most
    models of any case; the models share them out."""
    agents = max(case.count for case in cases)
    ours = {**ON_IT, **request.overrides}
    if ours["models.device"] == "cuda":
        _need_accelerator()
    rows: list[dict[str, Any]] = []
    for case in cases:
        setting = {
            "environment.options": {"num_agents": agents, "max_cycles": TURNS},
            "models.count": case.count,
            "models.dtype": case.dtype,
            "models.adapters": ADAPTERS if case.adapters else None,
            **ours,
        }
        shape = f"{case.layers}x{case.width}-{case.dtype}"
        base = request.folder / shape
        parameters, _ = processes.call(
            "random_qwen2", str(base), case.layers, case.width, setting, case.dtype
        )
        found, _ = processes.call("rounds_on", {**setting, "models.base": str(base)})
        single = [row for row in rows if row["shape"] == shape and row["count"] == 1]
        rows.append({
            "shape": shape, "width": case.width, "count": case.count, "dtype": case.dtype,
            "kind": "adapters" if case.adapters else "whole models",
            "millions": parameters / 1e6,
            "round_seconds": (found["rollout"] + found["train"]) / (setting["rounds"] - 1),
            "answers_a_second": found["answers"] / found["rollout"],
            "tokens_a_second": found["tokens"] / found["train"],
            "divergence": found["divergence"],
            "gib": found["bytes"] / 2**30,
            **({"of_one": found["bytes"] / 2**30 / single[0]["gib"]} if single else {}),
        })  # fmt: skip
    return Result(rows)


def _need_accelerator() -> None:
    """Raise ConfigError where torch finds none."""
    found, _ = processes.call("accelerators")
    if not found:
        raise ConfigError(
            "accelerator: torch finds none; `srl doctor` tells what is there, and torch's build "
            "for CUDA is what `pip install torch` takes on Linux. --set models.device=cpu measures "
            "the CPU, which takes hours"
        )


ACCELERATOR = Claim(
    accelerator,
    tables=[
        Table(
            {
                "models": "{count} {kind}",
                "base, million parameters": "{millions:.0f}",
                "weights": "{dtype}",
                "a round, s": "{round_seconds:.1f}",
                "answers a second in play": "{answers_a_second:.0f}",
                "trained tokens a second": "{tokens_a_second:.0f}",
                "sampler and trainer differ by": "{divergence:.1e}",
                "most memory, GiB": "{gib:.2f}",
                "/ one adapter's": "{of_one:.2f}",
            }
        )
    ],
    targets=[
        Target(
            "eight adapters take under 1.3 times the memory of one",
            "of_one", "<", 1.3, "{:.2f} times", {"count": 8, "width": 2048},
        )
    ],
    legend=f"Rounds of 16 games of {TURNS} turns on random weights, the first left out; the "
    "answers are constrained to the game's. Trained tokens are those that the models chose. The "
    "difference is the mean of the log-probabilities' in the last round. Memory: of tensors, at "
    "the most.",
    seeds=(),
)  # fmt: skip
