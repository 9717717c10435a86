"""Summaries of a run: what it has come to, and what each model has done."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from srl_train.engine.run_files import versions
from srl_train.engine.state import ModelTotals, Run


def summary(run: Run) -> dict[str, Any]:
    """What summary.json tells."""
    return {
        "environment": run.config.environment.name,
        "mode": run.config.mode.name,
        "preset": run.config.preset,
        "strategy": run.config.updates.strategy,
        "seed": run.config.seed,
        "rounds": run.next_round,
        "models": model_states(run),
        "opponent_pools": pool_states(run),
        "baselines": dict(run.baselines),
        "evaluation": run.evaluations,
        "warnings": list(run.warnings.values()),
        "stages": run.stages.reports,
        "api_usage": {name: asdict(own) for name, own in run.engine.api_usage(run).items()},
        "seconds": run.seconds,
        "versions": versions(),
        **communicated(run),
    }


def communicated(run: Run) -> dict[str, int]:
    """What the models would have sent each other over a network in all rounds so far, up and down,
    where the update strategy counts it."""
    traffic = run.strategy.traffic(run.strategy_state)
    return {"communicated_bytes": sum(map(sum, traffic.values()))} if traffic else {}


def results(
    run: Run, rows: Sequence[Mapping[str, Any]], completed: bool, checkpoints: Sequence[str]
) -> dict[str, Any]:
    """What training returns; `rows` are those of this sitting, `checkpoints` the saved ones."""
    environment = [row["environment"] for row in rows]
    return {
        "training_completed": completed,
        "total_episodes": episodes_played(run),
        "training_time": run.seconds,
        "training_metrics": {
            "episodes": [row["round"] for row in rows],
            "total_rewards": [played["raw_reward"] for played in environment],
            "cooperation_ratios": [played["cooperation_rate"] for played in environment],
            "weight_update_counts": dict(run.versions),
            "model_performances": {
                name: [row["models"][name]["raw_reward"] for row in rows] for name in run.learners
            },
        },
        "final_model_states": model_states(run),
        "checkpoints_saved": list(checkpoints),
        "evaluation": dict(run.evaluations),
        "stages": list(run.stages.reports),
    }


def model_states(run: Run) -> dict[str, dict[str, Any]]:
    """Model that learns -> what it is and has done so far."""
    models = run.config.models
    kind = "adapter" if models.adapters is not None else "full"
    bases = models.bases
    return {
        model: _state(run, model, totals, kind, bases[model], run.versions[model])
        for model, totals in run.totals.items()
    }


def pool_states(run: Run) -> dict[str, dict[str, Any]]:
    """Opponent pool -> its snapshots with their chances in the next draw, and what each of them
    leads the others by where they played each other."""
    return {
        name: {
            "chances": dict(zip([s.name for s in pool.snapshots], pool.chances(), strict=True)),
            **({"payoffs": pool.payoffs().tolist()} if pool.nash_games else {}),
        }
        for name, pool in run.pools.items()
        if pool.snapshots
    }


def frozen_states(run: Run) -> dict[str, dict[str, Any]]:
    """Frozen model -> the same."""
    return {
        name: _state(run, name, run.frozen_totals[name], "frozen", base, 0)
        for name, base in run.config.models.frozen_models.items()
    }


def _state(
    run: Run, name: str, totals: ModelTotals, kind: str, base: str, updates: int
) -> dict[str, Any]:
    return {
        "kind": kind,
        "model_name": base,
        "seats": list(run.agents_of(name)),
        "avg_reward": _ratio(totals.reward, totals.turns),
        "win_rate": _ratio(totals.wins, totals.episodes),
        "total_episodes": totals.episodes,
        "update_count": updates,
        "cooperation_score": _ratio(totals.cooperations, totals.choices),
    }


def episodes_played(run: Run) -> int:
    """Games of all rounds so far, failed ones included."""
    return run.next_round * run.config.rollout.episodes


def average_cooperation(run: Run) -> float | None:
    """Share of cooperative choices of all models so far; None for games without that choice."""
    choices = sum(t.choices for t in run.totals.values())
    return _ratio(sum(t.cooperations for t in run.totals.values()), choices)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
