"""Synthetic run folders, equal in form to those of training."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from srl_agents.episode import AgentStep, Decision, Episode, write_jsonl
from srl_train.metrics.sinks import JsonlSink

UNIFORM, OPTIMUM = 0.7625, 0.85


def row(number: int, models: int = 4, rounds: int = 40, **environment: Any) -> dict[str, Any]:
    """Return the row of a round of a run that improves from uniform play towards the optimum."""
    noise = np.random.default_rng(number)
    learned = 1 - math.exp(-4 * number / rounds)
    raw = UNIFORM + (OPTIMUM - UNIFORM) * learned
    return {
        "round": number,
        "seconds": {"rollout": 0.3, "train": 0.2},
        "mode": "cooperative",
        "strategy": "selective",
        "environment": {
            "name": "coop_compete_v0",
            "episodes": 16,
            "failed_episodes": 0,
            "raw_reward": raw + 0.004 * noise.normal(),
            "shaped_reward": raw + 0.1 + 0.004 * noise.normal(),
            "cooperation_rate": 0.5 + 0.49 * learned,
            "parse_failures": 0.05 * (1 - learned),
            "winners": {},
        }
        | environment,
        "models": {
            f"model_{i}": _model(i, number, 16 * (raw + 0.01 * noise.normal()), learned)
            for i in range(models)
        },
    }


def stage_row(number: int, stage: str, done: int, models: int = 4) -> dict[str, Any]:
    """Return the row of a pass of a stage, whose loss falls by 0.2 per pass."""
    losses = [0.7 - 0.2 * done, 0.5 - 0.2 * done]
    return {
        "round": number,
        "stage": stage,
        "pass": done,
        "seconds": 1.5,
        "models": {
            f"model_{i}": {
                "samples": 64, "updated": True, "updates": number + 1, "tokens": 900,
                "losses": losses, "loss": sum(losses) / 2, "mean_token_accuracy": 0.7 + 0.1 * done,
            }
            for i in range(models)
        },
    }  # fmt: skip


def _model(index: int, number: int, raw_return: float, learned: float) -> dict[str, Any]:
    updated = (number + index) % 2 == 0
    return {
        "seats": [f"agent_{index}"],
        "raw_reward": raw_return / 16,
        "raw_return": raw_return,
        "shaped_return": raw_return + 1.6,
        "parse_failures": 0.05 * (1 - learned),
        "cooperation_rate": 0.5 + 0.49 * learned - 0.02 * index,
        "updated": updated,
        "updates": (number + 1 + (index % 2 == 0)) // 2,
        "weight_change": 0.05 * math.exp(-number / 20) + 0.002 * index if updated else 0.0,
        "samples": 16,
        "staleness": {"mean": 0.5, "max": 2},
        "loss": 0.02 * math.cos(number),
        "grad_norm": 0.8 + 0.1 * index,
        "entropy": 0.69 * (1 - 0.9 * learned),
        "clip_ratio": None,
    }


def episode(
    turns: int = 6,
    answer: Callable[[int, int], str | None] = lambda turn, seat: "cooperate",
    failure: str | None = None,
    environment: str = "coop_compete_v0",
) -> Episode:
    """Return an episode of four agents; answers other than 'cooperate' are parse failures."""
    seats = {f"agent_{i}": f"model_{i}@3" for i in range(4)}

    def step(turn: int, seat: int) -> AgentStep:
        text = answer(turn, seat)
        legal = text is None or text == "cooperate"
        return AgentStep(
            agent=f"agent_{seat}",
            observation=np.array(
                [turn == 0, turn > 0, 2 / 3, 0.8 * (turn > 0), turn / 16, 0.6, 0.3], np.float32
            ),
            decision=Decision(1, text, parse_failure=None if legal else "no choice was named"),
            reward=0.85,
        )

    return Episode(
        environment=environment,
        seed=7,
        seats=seats,
        turns=tuple(tuple(step(turn, seat) for seat in range(4)) for turn in range(turns)),
        failure=failure,
    )


def config(mode: str = "cooperative", seed: int = 0, **more: Any) -> dict[str, Any]:
    """Return the configuration of a synthetic run."""
    return {
        "environment": {"name": "coop_compete_v0", "options": {"max_cycles": 16}},
        "models": {"count": 4, "base": "tiny"},
        "mode": {"name": mode},
        "updates": {"strategy": "selective"},
        "rounds": 40,
        "seed": seed,
    } | more


def write_run(
    folder: Path,
    rows: Sequence[dict[str, Any]] | None = None,
    episodes: Sequence[Episode] | None = None,
    told: dict[str, Any] | None = None,
    stage_rows: Sequence[dict[str, Any]] = (),
    **summary: Any,
) -> Path:
    """Write the folder of a finished run."""
    rows = [row(number) for number in range(40)] if rows is None else rows
    folder.mkdir(parents=True)
    (folder / "config.yaml").write_text(yaml.safe_dump(told or config(), sort_keys=False))
    for name, written in (("metrics.jsonl", rows), ("stages.jsonl", stage_rows)):
        if written or name == "metrics.jsonl":
            sink = JsonlSink(folder / name)
            for entry in written:
                sink.write(entry)
            sink.close()
    for number in (0, 39):
        write_jsonl(folder / f"episodes/round_{number:05d}.jsonl", episodes or [episode()])
    before, after = (
        {
            "raw_reward": reward,
            "standard_error": 0.001,
            "per_model": {f"model_{i}": reward + (i - 1) / 1000 for i in range(4)},
        }
        for reward in (0.763, 0.848)
    )
    content = {
        "environment": "coop_compete_v0",
        "mode": (told or config())["mode"]["name"],
        "strategy": "selective",
        "models": {f"model_{i}": {} for i in range(4)},
        "baselines": {"uniform": UNIFORM, "optimum": OPTIMUM},
        "evaluation": {"before": before, "after": after},
        "seconds": 41.2,
    } | summary
    (folder / "summary.json").write_text(json.dumps(content))
    return folder
