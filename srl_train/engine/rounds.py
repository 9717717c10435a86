"""One training round: rollout, advantages, buffering, update, metrics."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from srl_agents.episode import Episode
from srl_train.advantages.estimate import assign_credit
from srl_train.data.sample_buffer import UpdateBatch
from srl_train.data.samples import complete_groups, samples_for
from srl_train.engine import round_metrics
from srl_train.engine.rollout import check_failures, play_groups
from srl_train.engine.state import Run
from srl_train.engine.update import UpdateStats, distance, snapshot, update_models
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
        update_models(run, batches, RoundContext(number, 0, scores), update_index, updates)
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
