"""One training round: rollout, advantages, buffering, update, metrics."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from srl_agents import seeding
from srl_agents.episode import Episode
from srl_train.advantages.estimate import assign_credit
from srl_train.data.sample_buffer import UpdateBatch
from srl_train.data.samples import complete_groups, samples_for
from srl_train.engine import round_metrics
from srl_train.engine.state import Run
from srl_train.engine.update import UpdateStats, distance, snapshot
from srl_train.errors import TrainingError
from srl_train.metrics import unreadable_answers
from srl_train.updates import RoundContext
from srl_train.updates.scores import model_scores


@dataclass(frozen=True)
class RoundResult:
    """What a round leaves behind."""

    row: dict[str, Any]
    """For metrics.jsonl."""
    episodes: tuple[Episode, ...]


def run_round(run: Run, number: int) -> RoundResult:
    """Play and learn once; changes the run's models and state.

    Raises TrainingError where more than `max_failed_fraction` of the episodes failed.
    """
    began = time.perf_counter()
    episodes = play_groups(run, number)
    kept, left_out = complete_groups(episodes, run.config.rollout.group_size)
    check_failures(run, episodes)
    games, run.credit_state = assign_credit(
        [run.game(episode) for episode in kept],
        run.config.rollout.group_size,
        run.credit,
        run.seating(),
        run.credit_state,
    )
    played = time.perf_counter()

    scores = model_scores(kept, run.models_of_seats, run.roles)
    never_asked: dict[str, int] = {}
    for model, buffer in run.buffers.items():
        samples, without = samples_for(
            run.seats_of(model),
            games,
            group_size=run.config.rollout.group_size,
            discount=run.config.rollout.discount,
            round_number=number,
        )
        buffer.add(samples)
        never_asked |= without
    before = {model: snapshot(learner.weights()) for model, learner in run.learners.items()}
    updates = {model: UpdateStats() for model in run.learners}
    update_index = 0
    while batches := _full_budgets(run, number):
        context = RoundContext(number, 0, scores)
        run.engine.update(run, batches, context, update_index, updates)
        update_index += 1
    for model, update in updates.items():
        update.weight_change = distance(before[model], run.learners[model].weights())
    run.end_round(kept)
    warned = unreadable_answers.warn(run, kept)
    row = round_metrics.row(
        run,
        number,
        kept=kept,
        games=games,
        left_out=left_out,
        never_asked=never_asked,
        updates=updates,
        seconds={"rollout": played - began, "train": time.perf_counter() - played},
    )
    return RoundResult({**row, "warnings": warned} if warned else row, tuple(episodes))


def _full_budgets(run: Run, number: int) -> dict[str, UpdateBatch]:
    taken = {
        model: buffer.take(run.versions[model], number) for model, buffer in run.buffers.items()
    }
    return {model: batch for model, batch in taken.items() if batch is not None}


def play_groups(run: Run, number: int) -> list[Episode]:
    """The round's episodes, group after group: one environment seed, `group_size` policy seeds."""
    rollout = run.config.rollout
    rng = seeding.generator(run.config.seed, "round", number)
    env_seeds = [int(s) for s in rng.integers(2**31, size=rollout.groups_per_round)]
    seeds = [seed for seed in env_seeds for _ in range(rollout.group_size)]
    policy_seeds = [int(s) for s in rng.integers(2**63, size=len(seeds))]
    opponents = run.draw_opponents(number, seeding.generator(run.config.seed, "opponents", number))
    return run.engine.rollout(
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
