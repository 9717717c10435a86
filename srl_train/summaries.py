"""Summaries of a run: summary.json, and the results of `Trainer.fit`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from srl_train.run import ModelTotals, Run
from srl_train.run_files import versions


def summary(run: Run) -> dict[str, Any]:
    """Return the content of summary.json: main settings, totals, evaluations and warnings."""
    traffic = run.strategy.traffic(run.strategy_state)
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
        "api_usage": {name: asdict(own) for name, own in run.engine.api_usage().items()},
        "seconds": run.seconds,
        "versions": versions(),
        **({"communicated_bytes": sum(traffic.values())} if traffic else {}),
    }


def results(
    run: Run, rows: Sequence[Mapping[str, Any]], checkpoints: Sequence[str]
) -> dict[str, Any]:
    """Return the results of `Trainer.fit`, which lists the keys.

    `rows` are the metrics rows of rounds, for the lists in "training_metrics". `checkpoints` is the
    value of "checkpoints_saved".
    """
    environment = [row["environment"] for row in rows]
    return {
        "training_completed": run.completed,
        "total_episodes": episodes_played(run),
        "training_time": run.seconds,
        "training_metrics": {
            "episodes": [row["round"] for row in rows],
            "total_rewards": [entry["raw_reward"] for entry in environment],
            "cooperation_ratios": [entry["cooperation_rate"] for entry in environment],
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
    """Return model in training -> totals over all groups without a failed episode.

    The keys are "kind" ("adapter" or "full"), "model_name" (base), "seats" (agents), "avg_reward"
    (raw, per step), "win_rate" and "cooperation_score" (0 to 1), "total_episodes" (once per agent)
    and "update_count". Means and rates without data are None.
    """
    models = run.config.models
    kind = "adapter" if models.adapters is not None else "full"
    return {
        model: _state(run, model, totals, kind, models.bases[model], run.versions[model])
        for model, totals in run.totals.items()
    }


def pool_states(run: Run) -> dict[str, dict[str, Any]]:
    """Return pool -> {"chances": snapshot -> probability}, for each pool that has snapshots.

    For draw "nash", "payoffs" has `OpponentPool.payoffs` as lists, in the order of the snapshots.
    """
    return {
        name: {
            "chances": dict(zip([s.name for s in pool.snapshots], pool.chances(), strict=True)),
            **({"payoffs": pool.payoffs().tolist()} if pool.nash_episodes else {}),
        }
        for name, pool in run.pools.items()
        if pool.snapshots
    }


def frozen_states(run: Run) -> dict[str, dict[str, Any]]:
    """Return frozen model -> the entries of `model_states`; kind is "frozen", update_count 0."""
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
    """Return the number of episodes of all completed rounds, including failed episodes."""
    return run.next_round * run.config.rollout.episodes


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
