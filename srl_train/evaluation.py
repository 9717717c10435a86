"""Evaluation of the current policies without updating them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from srl_agents import seeding
from srl_agents.episode import Episode
from srl_agents.evaluation import episode_stats
from srl_agents.evaluation.episode_stats import LONG_AFTER
from srl_train.plan import PlannedGames
from srl_train.pools import grow_pools, load_first_opponents
from srl_train.run import Run


def evaluate(run: Run, episodes: int) -> tuple[dict[str, Any], list[Episode]]:
    """Play `episodes` episodes with the run's policies, with the sampling settings of training.

    Warm-ups and ramps of the environment have their final values. The run's seed and `episodes`
    determine the environment seeds and the assignment of models to agents. Opponent pools first add
    snapshots that are due before the next round, then play their oldest. Raises the errors of
    `Engine.play` and `grow_pools`.

    Returns:
        (results, records of all episodes). Failed episodes count only in "failed_episodes".
        "episodes" is the number of others. "raw_reward" is the mean over all steps of all agents,
        with its "standard_error", None for one episode; "learners_..." are the same of models in
        training. "cooperation_rate", "success" and "parse_failures" are fractions. "per_model" and
        "per_agent" have mean rewards per step. Without data "parse_failures" is 0, other means and
        fractions are None. "by_environment" is label -> statistics, {} except for multitask_v0.
    """
    seeds = seeding.of_games(seeding.generator(run.config.seed, "evaluation", episodes), episodes)
    grow_pools(run, run.next_round)
    load_first_opponents(run)
    options, seatings = [{"episode": LONG_AFTER}] * episodes, run.matchmaking.evaluated(episodes)
    played = run.engine.play(PlannedGames(*seeds, options, seatings))
    good = [episode for episode in played if episode.failure is None]
    steps = [step for episode in good for turn in episode.turns for step in turn]
    mean, error = mean_of_all([[s.reward for turn in e.turns for s in turn] for e in good])
    learners_mean, learners_error = mean_of_all(
        [[s.reward for t in e.turns for s in t if e.seats[s.agent] in run.learners] for e in good]
    )
    per_model = {}
    for model in run.learners:
        rewards = [s.reward for e in good for a in e.agents_of(model) for s in e.steps_of(a)]
        per_model[model] = float(np.mean(rewards)) if rewards else None
    per_agent = {
        agent: episode_stats.mean([s.reward for e in good for s in e.steps_of(agent)])
        for agent in run.seats
    }
    return {
        "episodes": len(good),
        "failed_episodes": len(played) - len(good),
        "raw_reward": mean,
        "standard_error": error,
        "learners_raw_reward": learners_mean,
        "learners_standard_error": learners_error,
        "cooperation_rate": episode_stats.cooperation_rate(steps),
        "success": episode_stats.success(good),
        "parse_failures": episode_stats.parse_failures(steps),
        "per_model": per_model,
        "per_agent": per_agent,
        "by_environment": episode_stats.by_environment(good),
    }, played


def mean_of_all(games: Sequence[Sequence[float]]) -> tuple[float | None, float | None]:
    """Return (mean, standard error) of the numbers in `games`, a list of numbers per episode.

    The numbers of an episode may be correlated (ratio estimator of Cochran 1977, eq. 6.13). Without
    numbers both are None; if only one episode has numbers, the error is None.
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
