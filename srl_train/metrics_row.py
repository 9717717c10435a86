"""Metrics rows of rounds: lines of metrics.jsonl."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from srl_agents.episode import Episode
from srl_agents.evaluation.episode_stats import (
    by_environment,
    cooperation_rate,
    mean,
    parse_failures,
    success,
    winner,
)
from srl_train.run import PlayedRound, Run, UpdateStats

_SAME = (
    "loss", "grad_norm", "learning_rate", "entropy", "kl", "reward_std", "frac_reward_zero_std",
    "value_loss", "explained_variance", "approx_kl",
)  # fmt: skip
_KEPT = {name: name for name in _SAME} | {
    "clip_ratio/region_mean": "clip_ratio",
    "sampler_divergence/mean": "sampler_divergence",
    "sampler_divergence/max": "sampler_divergence_max",
}
"""Metric of a learner -> its name in a row."""


def metrics_row(
    run: Run,
    played: PlayedRound,
    updates: Mapping[str, UpdateStats],
    seconds: Mapping[str, float],
) -> dict[str, Any]:
    """Return the row of metrics.jsonl of the round `played`, after the models' updates.

    Rewards are means per agent and step, returns are means per agent and episode; None without
    data. Episodes that are not used for training are only counted. `seconds` has the times of
    "rollout" and "train".
    """
    kept, left_out = played.kept, played.left_out
    steps = [step for episode in kept for turn in episode.turns for step in turn]
    trajectories = [trajectory for game in played.games for trajectory in game.values()]
    shaped = [reward for trajectory in trajectories for reward in trajectory.shaped]
    row: dict[str, Any] = {
        "round": played.number,
        "seconds": dict(seconds),
        "mode": run.config.mode.name,
        "strategy": run.config.updates.strategy,
        "mode_state": dict(played.mode_state),
        "environment": {
            "name": run.config.environment.name,
            "episodes": len(kept) + len(left_out),
            "failed_episodes": sum(e.failure is not None for e in left_out),
            "left_out_episodes": len(left_out),
            "raw_reward": mean([step.reward for step in steps]),
            "learners_raw_reward": mean(
                [s.reward for e in kept for t in e.turns for s in t if e.seats[s.agent] in updates]
            ),
            "shaped_reward": mean(shaped),
            "cooperation_rate": cooperation_rate(steps),
            "success": success(kept),
            "parse_failures": parse_failures(steps),
            "winners": dict(Counter(w for e in kept if (w := winner(e)) is not None)),
        },
        "by_environment": by_environment(kept),
        "by_agent": {agent: _agent_row(agent, kept) for agent in run.seats},
        "models": {name: _model_row(run, name, played, one) for name, one in updates.items()},
    }
    if played.replayed_steps:
        row["replayed_steps"] = played.replayed_steps
    if run.strategy.traffic(run.strategy_state):  # The strategy counts bytes.
        row["communicated_bytes"] = sum(update.exchanged for update in updates.values())
    return row


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
    appearances = [
        (episode, game, agent) for episode, game in pairs for agent in episode.agents_of(model)
    ]
    steps = [step for episode, _, agent in appearances for step in episode.steps_of(agent)]
    found = update.metrics
    metrics = {ours: found[theirs] for theirs, ours in _KEPT.items() if theirs in found}
    return {
        # All agents that matchmaking may assign to the model.
        "seats": list(seats),
        **({"games": len({id(e) for e, _, _ in appearances})} if run.matchmaking.draws else {}),
        "raw_reward": mean([step.reward for step in steps]),
        "raw_return": mean([episode.returns()[agent] for episode, _, agent in appearances]),
        "shaped_return": mean([sum(game[agent].shaped) for _, game, agent in appearances]),
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


def _summary(values: Sequence[int]) -> dict[str, float] | None:
    return {"mean": sum(values) / len(values), "max": max(values)} if values else None
