"""Rollouts of a run, shared among all of its processes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from srl_agents import seeding
from srl_agents.episode import Episode
from srl_agents.rollout import play_many
from srl_train.distributed import processes
from srl_train.engine.state import Run
from srl_train.errors import TrainingError


def play(
    run: Run,
    env_seeds: Sequence[int],
    policy_seeds: Sequence[int],
    options: Sequence[Mapping[str, Any]],
    *,
    extra: Mapping[str, Any] | None = None,
    record_states: bool = False,
) -> list[Episode]:
    """One episode per entry of `env_seeds` with the run's players; every process gets all of them.

    env_seeds, policy_seeds, options: each episode's reset seed, the seed of its policies, and its
    reset options.
    Each process plays its share and hands it round, except under fsdp, where no process has a
    whole model: there all play everything, in step. Raises TrainingError where they part.
    """
    sharded = run.config.parallel == "fsdp"
    own = slice(None) if sharded else _place_of(len(env_seeds))
    played = play_many(
        run.make_env,
        run.policies,
        env_seeds[own],
        policy_seeds=policy_seeds[own],
        speaks_first=run.speaks_first,
        reset_options=options[own],
        names=run.seats,
        extra=extra,
        record_states=record_states,
    )
    if not sharded:
        return processes.gather(played)
    processes.check_same("what was played", [_course(episode) for episode in played])
    return played


def play_groups(run: Run, number: int) -> list[Episode]:
    """The round's episodes, group after group: one environment seed, `group_size` policy seeds."""
    rollout = run.config.rollout
    rng = seeding.generator(run.config.seed, "round", number)
    env_seeds = [int(s) for s in rng.integers(2**31, size=rollout.groups_per_round)]
    seeds = [seed for seed in env_seeds for _ in range(rollout.group_size)]
    policy_seeds = [int(s) for s in rng.integers(2**63, size=len(seeds))]
    opponents = run.draw_opponents(number, seeding.generator(run.config.seed, "opponents", number))
    return play(
        run,
        seeds,
        policy_seeds,
        # A whole group is in the same phase of a staged game: compared members share their rules.
        [
            {"episode": number * len(seeds) + index - index % rollout.group_size}
            for index in range(len(seeds))
        ],
        extra={"round": number, **({"opponents": opponents} if opponents else {})},
        record_states=run.config.records_states,
    )


def check_failures(run: Run, episodes: Sequence[Episode]) -> None:
    """Raise TrainingError where more than `max_failed_fraction` of the episodes failed."""
    failures = [episode.failure for episode in episodes if episode.failure is not None]
    share = len(failures) / len(episodes)
    if share > run.config.max_failed_fraction:
        raise TrainingError(
            f"{len(failures)} of {len(episodes)} episodes failed, max_failed_fraction is "
            f"{run.config.max_failed_fraction:g}; the first: {failures[0]}"
        )


def _place_of(games: int) -> slice:
    own = processes.share_of(range(games))
    return slice(own.start, own.stop)  # type: ignore[attr-defined]


def _course(episode: Episode) -> tuple[Any, ...]:
    """What a game must have in common in all processes."""
    answers = [
        (step.agent, step.decision.text, str(step.decision.action), step.reward)
        for turn in episode.turns
        for step in turn
    ]
    return episode.seed, episode.failure, answers
