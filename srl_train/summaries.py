"""Metrics rows of rounds, and summaries of a run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from srl_agents.episode import Episode
from srl_agents.evaluation.episode_stats import (
    by_environment,
    cooperation_rate,
    mean,
    parse_failures,
    success,
    winner,
)
from srl_train.run import ModelTotals, Run, UpdateStats
from srl_train.run_files import versions
from srl_train.trajectory import Game
from srl_train.updates import no_copies

if TYPE_CHECKING:
    from srl_train.round import PlayedRound

# TRL's name of each metric in a row to its name there.
_KEPT = {
    "loss": "loss",
    "grad_norm": "grad_norm",
    "learning_rate": "learning_rate",
    "entropy": "entropy",
    "clip_ratio/region_mean": "clip_ratio",
    "kl": "kl",
    "reward_std": "reward_std",
    "frac_reward_zero_std": "frac_reward_zero_std",
    "value_loss": "value_loss",
    "explained_variance": "explained_variance",
    "approx_kl": "approx_kl",
    "stopped_early": "stopped_early",
    "sampler_divergence/mean": "sampler_divergence",
    "sampler_divergence/max": "sampler_divergence_max",
}


def metrics_row(
    run: Run,
    played: PlayedRound,
    updates: Mapping[str, UpdateStats],
    seconds: Mapping[str, float],
) -> dict[str, Any]:
    """Build the round's row of metrics.jsonl.

    Rewards are means per agent and step, returns are means per agent and episode.

    Args:
        run: The run.
        played: Episodes and trajectories of the round.
        updates: Statistics of each model's updates.
        seconds: Duration of the parts of the round.
    """
    kept, left_out = played.kept, played.left_out
    steps = [step for episode in kept for turn in episode.turns for step in turn]
    shaped = [reward for game in played.games for own in game.values() for reward in own.shaped]
    counted = bool(run.strategy.traffic(run.strategy_state))
    return {
        "round": played.number,
        "seconds": dict(seconds),
        "mode": run.config.mode.name,
        "strategy": run.config.updates.strategy,
        "mode_state": dict(played.mode_state),
        **(
            {"communicated_bytes": sum(u.sent + u.received for u in updates.values())}
            if counted
            else {}
        ),
        **({"replayed_steps": played.replayed_steps} if played.replayed_steps else {}),
        "environment": {
            "name": run.config.environment.name,
            "episodes": len(kept) + len(left_out),
            "failed_episodes": sum(e.failure is not None for e in left_out),
            "left_out_episodes": len(left_out),
            "raw_reward": mean([step.reward for step in steps]),
            "shaped_reward": mean(shaped),
            "cooperation_rate": cooperation_rate(steps),
            "success": success(kept),
            "parse_failures": parse_failures(steps),
            "winners": dict(Counter(w for e in kept if (w := winner(e)) is not None)),
        },
        "by_environment": by_environment(kept),
        "by_agent": {agent: _agent_row(agent, kept) for agent in run.seats},
        "models": {
            model: {
                **_model_row(run, model, played, update),
                **(
                    {"bytes_sent": update.sent, "bytes_received": update.received}
                    if counted
                    else {}
                ),
            }
            for model, update in updates.items()
        },
    }


def _agent_row(agent: str, kept: Sequence[Episode]) -> dict[str, Any]:
    steps = [step for episode in kept for step in episode.steps_of(agent)]
    return {
        "raw_reward": mean([step.reward for step in steps]),
        "raw_return": mean([episode.returns()[agent] for episode in kept]),
        "parse_failures": parse_failures(steps),
        "cooperation_rate": cooperation_rate(steps),
    }


def _model_row(run: Run, model: str, played: PlayedRound, update: UpdateStats) -> dict[str, Any]:
    seats, never_asked = run.agents_of(model), played.never_asked[model]
    pairs = zip(played.kept, played.games, strict=True)
    held = [(episode, game, agent) for episode, game in pairs for agent in episode.agents_of(model)]
    steps = [step for episode, _, agent in held for step in episode.steps_of(agent)]
    found = update.metrics
    metrics = {ours: found[theirs] for theirs, ours in _KEPT.items() if theirs in found}
    return {
        # All agents that matchmaking may assign to the model.
        "seats": list(seats),
        **_matched(run, model, held),
        **_population(run, model, update),
        "raw_reward": mean([step.reward for step in steps]),
        "raw_return": mean([episode.returns()[agent] for episode, _, agent in held]),
        "shaped_return": mean([sum(game[agent].shaped) for _, game, agent in held]),
        "parse_failures": parse_failures(steps),
        "cooperation_rate": cooperation_rate(steps),
        "updated": update.updates > 0,
        "updates": update.version,
        "weight_change": update.weight_change,
        "steps_left_out": update.steps_left_out,
        "samples": update.samples,
        "samples_dropped_stale": update.dropped.total(),
        "stale_by_agent": {agent: update.dropped[agent] for agent in seats},
        "never_asked_by_agent": {agent: never_asked[agent] for agent in seats},
        "staleness": _summary(update.staleness),
        "age_rounds": _summary(update.age),
        **metrics,
    }


def _population(run: Run, model: str, update: UpdateStats) -> dict[str, Any]:
    """Return the source and the hyperparameters of a model in a population."""
    if run.strategy.exchange is no_copies:
        return {}
    settings = run.learners[model].hyperparameters()
    return {"copied_from": update.copied_from, "settings": settings}


def _matched(
    run: Run, model: str, held: Sequence[tuple[Episode, Game, str]]
) -> dict[str, int | float]:
    """Return the number of the model's episodes and its rating, with drawn matchmaking."""
    if not run.matchmaking.draws:
        return {}
    found: dict[str, int | float] = {"games": len({id(episode) for episode, _, _ in held})}
    ratings = run.matchmaking.ratings
    if ratings is not None:
        found |= {"rating": ratings.mu[model], "rating_deviation": ratings.sigma[model]}
    return found


def _summary(values: Sequence[int]) -> dict[str, float] | None:
    return {"mean": sum(values) / len(values), "max": max(values)} if values else None


# Summaries.


def summary(run: Run) -> dict[str, Any]:
    """Return the content of summary.json."""
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
        **communicated(run),
    }


def communicated(run: Run) -> dict[str, int]:
    """Return the bytes that models would have exchanged, if the strategy counts them."""
    traffic = run.strategy.traffic(run.strategy_state)
    return {"communicated_bytes": sum(map(sum, traffic.values()))} if traffic else {}


def results(
    run: Run, rows: Sequence[Mapping[str, Any]], completed: bool, checkpoints: Sequence[str]
) -> dict[str, Any]:
    """Return the results of `Trainer.fit`.

    Args:
        run: The run.
        rows: Metrics rows of the rounds since the run was built or resumed.
        completed: Whether all stages and rounds are complete.
        checkpoints: Ids of the saved checkpoints.
    """
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
    """Return the kind, agents and totals of each model in training."""
    models = run.config.models
    kind = "adapter" if models.adapters is not None else "full"
    bases = models.bases
    return {
        model: _state(run, model, totals, kind, bases[model], run.versions[model])
        for model, totals in run.totals.items()
    }


def pool_states(run: Run) -> dict[str, dict[str, Any]]:
    """Return, per opponent pool, the probabilities of the next draw and the payoffs, if known."""
    return {
        name: {
            "chances": dict(zip([s.name for s in pool.snapshots], pool.chances(), strict=True)),
            **({"payoffs": pool.payoffs().tolist()} if pool.nash_games else {}),
        }
        for name, pool in run.pools.items()
        if pool.snapshots
    }


def frozen_states(run: Run) -> dict[str, dict[str, Any]]:
    """Return the same as `model_states` for the frozen models."""
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
    """Return the number of episodes of all rounds, including failed ones."""
    return run.next_round * run.config.rollout.episodes


def average_cooperation(run: Run) -> float | None:
    """Return the share of cooperative choices of all models; None without such a choice."""
    choices = sum(t.choices for t in run.totals.values())
    return _ratio(sum(t.cooperations for t in run.totals.values()), choices)


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if whole else None
