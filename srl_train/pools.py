"""Opponent pools during training: snapshots, draws, and episodes between snapshots."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from srl_agents import seeding
from srl_agents.evaluation.episode_stats import LONG_AFTER
from srl_train.errors import TrainingError
from srl_train.opponent_pool import OpponentPool
from srl_train.plan import PlannedGames
from srl_train.run import Run


def grow_pools(run: Run, rounds: int) -> None:
    """Add the snapshots that are due after `rounds` rounds to the run's opponent pools.

    If draw is nash, new and older snapshots play episodes, which changes the published snapshots.
    Raises TrainingError if too many episodes fail, or EpisodeTimeout; no snapshot is then added.
    """
    if not growth_is_due(run, rounds):
        return
    before = {name: list(pool.snapshots) for name, pool in run.pools.items()}
    weights = {name: learner.weights() for name, learner in run.learners.items()}
    try:
        for pool in run.pools.values():
            pool.grow(rounds, weights)
        for pool in run.pools.values():
            if pool.nash_episodes:
                load_first_opponents(run)
                _play_snapshots(run, pool, rounds)
    except BaseException:
        for name, snapshots in before.items():
            run.pools[name].snapshots = snapshots
        raise


def growth_is_due(run: Run, rounds: int) -> bool:
    """Return True if any pool lacks a snapshot that is due after `rounds` rounds."""
    return any(pool.grows_at(rounds) for pool in run.pools.values())


def draw_opponents(run: Run, rng: np.random.Generator, groups: int) -> list[dict[str, str]]:
    """Return pool -> name of a drawn snapshot, for each group.

    Pools whose `draw_each` is "round" have one snapshot in all groups.
    """
    sections = run.config.opponent_pools
    drawn = {n: pool.draw(rng) for n, pool in run.pools.items() if sections[n].draw_each == "round"}
    return [
        {name: drawn[name] if name in drawn else pool.draw(rng) for name, pool in run.pools.items()}
        for _ in range(groups)
    ]


def load_opponents(run: Run, opponents: Mapping[str, str]) -> None:
    """Publish snapshots to the samplers of their pools; `opponents` is pool -> snapshot's name."""
    for pool, snapshot in opponents.items():
        run.pools[pool].seat(snapshot)


def load_first_opponents(run: Run) -> None:
    """Publish each pool's oldest snapshot. Each pool must have one."""
    for pool in run.pools.values():
        pool.seat(pool.snapshots[0].name)


def _play_snapshots(run: Run, pool: OpponentPool, rounds: int) -> None:
    rng = seeding.generator(run.config.seed, "pool_games", rounds)
    count = pool.nash_episodes
    env_seeds, policy_seeds = seeding.of_games(rng, count)
    pooled = {agent: name for agent, name in run.seats.items() if name == pool.name}
    for place, newer in enumerate(pool.snapshots):
        for older in pool.snapshots[:place] if newer.round == rounds else ():
            load_opponents(run, {pool.name: older.name})
            learning = dict.fromkeys(run.agents_that_learn, newer.model)
            swapped = dict.fromkeys(learning, pool.name) | dict.fromkeys(pooled, newer.model)
            games = PlannedGames(
                env_seeds * 2,
                policy_seeds * 2,
                [{"episode": LONG_AFTER}] * 2 * count,
                [{**run.seats, **learning}] * count + [{**run.seats, **swapped}] * count,
                extra={"opponents": {name: other.seated for name, other in run.pools.items()}},
            )
            played = run.engine.play(games)
            run.check_failures(played)
            halves = played[:count], played[count:]
            good = [[one for one in half if one.failure is None] for half in halves]
            if not all(good):
                raise TrainingError(
                    f"every episode of {newer.name} with {older.name} failed; the first: "
                    f"{next(one.failure for one in played if one.failure)}"
                )
            pool.record_lead(newer, older, good)
