"""Models that sample in a vLLM server beside the same models that sample in the trainer."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.records import CONFIGS, ROOT
from benchmarks.training.claim import Claim, Request, Result, Table, Target
from benchmarks.training.runs import Settings, mean_return, trained
from srl_agents.llm import tiny
from srl_train.config import yaml_file
from srl_train.environment import build_env

ROUNDS, LAST = 10, 3
"""Rounds of a run, and those at its end whose mean reward is compared."""
PYTHON = "SRL_VLLM_PYTHON"
"""Variable that names the interpreter of vLLM's environment, where `make test-vllm` built none."""
HERE = ROOT / ".venv-vllm" / "bin" / "python"
EXAMPLE = "demo.yaml"


def served(request: Request) -> Result:
    """One row per seed and engine: four adapters on the embedded model, `demo.yaml`'s game.

    Rewards are raw, per agent and turn. The embedded model has the shape that vLLM can serve, in
    both engines.
    """
    python = os.environ.get(PYTHON) or (str(HERE) if HERE.exists() else sys.executable)
    config = yaml_file.load(CONFIGS / EXAMPLE, request.overrides)
    base = str(tiny.folder(lambda: build_env(config), size=tiny.SERVABLE))
    shared: Settings = {
        "models.base": base,
        "models.adapters": {"rank": 16},
        "algorithm.learning_rate": 5e-3,
        "rollout.groups_per_round": 1,
        "rounds": ROUNDS,
        "logging.evaluation_episodes": 0,
    }
    engines: Mapping[str, Settings] = {
        "transformers": shared,
        "vllm": {**shared, "backend": {"name": "vllm", "managed": {"python": python}}},
    }
    rows: list[dict[str, Any]] = []
    for row in trained(request, EXAMPLE, {"after": lambda run: mean_return(run, 16)}, engines):
        last = sum(row["curve"][-LAST:]) / LAST
        local = last if row["variant"] == "transformers" else rows[-1]["last"]
        rows.append({**row, "last": last, "apart": abs(last - local), **_told(Path(row["out"]))})
    return Result(rows)


def _told(out: Path) -> dict[str, Any]:
    """How far sampler and trainer were apart, and what else the rounds' rows tell."""
    rounds = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    models = [model for row in rounds for model in row["models"].values()]
    divergence = [m["sampler_divergence_max"] for m in models if "sampler_divergence_max" in m]
    return {
        "divergence": max(divergence, default=0.0),
        "failed": sum(row["environment"]["failed_episodes"] for row in rounds),
    }


SERVED = Claim(
    measure=served,
    seeds=(0, 1),
    writes_runs=True,
    tables=[
        Table({
            "sampled by": "{variant}", "seed": "{seed}", "last rounds": "{last:.4f}",
            "apart": "{apart:.4f}", "largest difference in log-probability": "{divergence:.1e}",
            "failed games": "{failed}", "whole run, s": "{wall_seconds:.0f}",
        }),
    ],
    targets=[
        Target("sampled by vLLM, the last three rounds are within .02 of the trainer's own",
               "apart", "<=", 0.02, "{:.4f}", {"variant": "vllm"}),
        Target("sampler and trainer agree to 1e-4 in log-probability",
               "divergence", "<=", 1e-4, "{:.1e}", {"variant": "vllm"}),
        Target("no game fails", "failed", "==", 0),
    ],
    legend="Four adapters of rank 16 on the embedded model with heads of 32, float32 on a CPU.",
)  # fmt: skip
