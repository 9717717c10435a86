"""Evaluation of the current policies without updating them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from srl_agents import seeding
from srl_agents.episode import Episode
from srl_agents.evaluation import episode_stats
from srl_agents.evaluation.episode_stats import LONG_AFTER
from srl_train.data.planned_games import PlannedGames
from srl_train.engine.games import grow_pools
from srl_train.engine.state import Run


def evaluate(run: Run, episodes: int) -> tuple[dict[str, Any], list[Episode]]:
    """Play `episodes` games with the run's agents, sampled as in training.

    The same games every time for one seed, in pools the same first opponents, and where models are
    drawn or rotated the same seatings, in which all of them come to play. Returns
    ({"raw_reward": mean per agent and turn, "standard_error" of it, "cooperation_rate", "success",
    "parse_failures", "episodes", "per_model": {model: the mean over its seats}, "per_agent":
    {agent: its mean}, "by_environment": of multitask_v0, see episode_stats}, the episodes). Every
    turn of every agent counts alike, in long games and short ones.
    """
    seeds = seeding.of_games(seeding.generator(run.config.seed, "evaluation", episodes), episodes)
    grow_pools(run, run.next_round)
    run.seat_first_opponents()
    options, seatings = [{"episode": LONG_AFTER}] * episodes, run.matchmaking.evaluated(episodes)
    played = run.engine.rollout(run, PlannedGames(*seeds, options, seatings))
    good = [episode for episode in played if episode.failure is None]
    steps = [step for episode in good for turn in episode.turns for step in turn]
    earned = [[s.reward for turn in e.turns for s in turn] for e in good]
    mean, error = mean_of_all(earned)
    per_model = {}
    for model in run.learners:
        own = [s.reward for e in good for a in e.agents_of(model) for s in e.steps_of(a)]
        per_model[model] = float(np.mean(own)) if own else None
    per_agent = {
        agent: episode_stats.mean([s.reward for e in good for s in e.steps_of(agent)])
        for agent in run.seats
    }
    return {
        "episodes": len(good),
        "failed_episodes": len(played) - len(good),
        "raw_reward": mean,
        "standard_error": error,
        "cooperation_rate": episode_stats.cooperation_rate(steps),
        "success": episode_stats.success(good),
        "parse_failures": episode_stats.parse_failures(steps),
        "per_model": per_model,
        "per_agent": per_agent,
        "by_environment": episode_stats.by_environment(good),
    }, played


def mean_of_all(games: Sequence[Sequence[float]]) -> tuple[float | None, float | None]:
    """The mean of all numbers of all games, and its standard error, games being independent.

    The numbers of one game are not, so the error is that of a ratio of two sums over games, its
    linearisation (Cochran 1977, eq. 6.13). None where there is nothing to tell: no number, or a
    single game.
    """
    played = [game for game in games if game]
    if not played:
        return None, None
    turns = np.array([len(game) for game in played])
    sums = np.array([np.sum(game) for game in played])
    mean = sums.sum() / turns.sum()
    if len(played) == 1:
        return float(mean), None
    apart = np.sum((sums - mean * turns) ** 2) / (len(played) * (len(played) - 1))
    return float(mean), float(np.sqrt(apart) / turns.mean())
