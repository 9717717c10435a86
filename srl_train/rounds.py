"""One round, top to bottom: play, shape, gather, update, account."""

from __future__ import annotations

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import torch
from torch import Tensor

from srl_agents import seeding
from srl_agents.episode import Episode
from srl_agents.long_work import LongWork
from srl_train import round_metrics, unread
from srl_train.buffers import Taken
from srl_train.errors import TrainingError
from srl_train.learners.sharding import full
from srl_train.playing import play
from srl_train.run import Run
from srl_train.samples import complete_groups, in_groups, samples_for
from srl_train.scores import model_scores
from srl_train.updates import RoundContext, Tensors
from srl_train.updates.averaging import not_finite


@dataclass(frozen=True)
class RoundResult:
    """What a round leaves behind."""

    row: dict[str, Any]
    """For metrics.jsonl."""
    episodes: tuple[Episode, ...]


def run_round(run: Run, number: int) -> RoundResult:
    """Play and learn once; changes the run's models and state.

    Raises TrainingError where more than `max_failed_share` of the episodes failed.
    """
    began = time.perf_counter()
    episodes = play_groups(run, number)
    kept, left_out = complete_groups(episodes, run.config.rollout.group_size)
    check_failures(run, episodes)
    shaped = [run.shape(episode) for episode in kept]
    games = [run.game(episode, rewards) for episode, rewards in zip(kept, shaped, strict=True)]
    advantages, run.credit_state = run.credit.assign(
        in_groups(games, run.config.rollout.group_size), run.seating(), run.credit_state
    )
    played = time.perf_counter()

    scores = model_scores(kept, run.models_of_seats, run.roles)
    never_asked: dict[str, int] = {}
    for model, buffer in run.buffers.items():
        samples, without = samples_for(
            run.seats_of(model),
            kept,
            shaped,
            group_size=run.config.rollout.group_size,
            discount=run.config.rollout.discount,
            round_number=number,
            advantages=None if advantages is None else list(chain(*advantages)),
        )
        buffer.add(samples)
        never_asked |= without
    before = {model: _snapshot(learner.weights()) for model, learner in run.learners.items()}
    accounts = {model: round_metrics.UpdateAccount() for model in run.learners}
    wave = 0
    while batches := _full_budgets(run, number):
        update_wave(run, batches, RoundContext(number, 0, scores), wave, accounts)
        wave += 1
    for model, account in accounts.items():
        account.weight_change = _distance(before[model], run.learners[model].weights())
    run.end_round(kept)
    warned = unread.warn(run, kept)
    row = round_metrics.row(
        run,
        number,
        kept=kept,
        shaped=shaped,
        left_out=left_out,
        never_asked=never_asked,
        accounts=accounts,
        seconds={"rollout": played - began, "train": time.perf_counter() - played},
    )
    return RoundResult({**row, "warnings": warned} if warned else row, tuple(episodes))


def play_groups(run: Run, number: int) -> list[Episode]:
    """The round's episodes, group after group: one start, `group_size` different courses."""
    rollout = run.config.rollout
    rng = seeding.generator(run.config.seed, "round", number)
    starts = [int(s) for s in rng.integers(2**31, size=rollout.groups_per_round)]
    seeds = [start for start in starts for _ in range(rollout.group_size)]
    courses = [int(s) for s in rng.integers(2**63, size=len(seeds))]
    opponents = run.draw_opponents(number, seeding.generator(run.config.seed, "opponents", number))
    return play(
        run,
        seeds,
        courses,
        # A whole group is in the same phase of a staged game: compared members share their rules.
        [
            {"episode": number * len(seeds) + index - index % rollout.group_size}
            for index in range(len(seeds))
        ],
        extra={"round": number, **({"opponents": opponents} if opponents else {})},
        record_states=run.config.records_states,
    )


def update_wave(
    run: Run,
    batches: Mapping[str, Taken],
    context: RoundContext,
    wave: int,
    accounts: Mapping[str, round_metrics.UpdateAccount],
) -> None:
    """One update of every model in `batches`, all stepping together.

    A model's update is counted when its weights differ afterwards, and only then.
    """
    context = context._replace(samples={m: len(own.samples) for m, own in batches.items()})
    before = {model: _snapshot(run.learners[model].weights()) for model in batches}
    steps = {}
    for model, taken in batches.items():
        index = list(run.learners).index(model)
        seed = seeding.of_update(run.config.seed, context.round, index, wave)
        version = run.versions[model]
        steps[model] = run.learners[model].begin_update(taken.samples, seed, version)
    work = LongWork("updating the models")
    for step in range(max(steps.values())):
        work.at(f"step {step} of {max(steps.values())}")
        now = context._replace(step=step)
        gradients: dict[str, Mapping[str, Tensor] | None] = {
            model: run.learners[model].compute_gradients() if step < steps[model] else None
            for model in batches
        }
        gradients = _finite_ones(gradients, now, accounts)
        combined, run.strategy_state = run.strategy.on_gradients(gradients, run.strategy_state, now)
        for model, gradient in combined.items():
            run.learners[model].apply_gradients(gradient)
    after = {model: run.learners[model].weights() for model in batches}
    _refuse_broken(run, after, "after the update")
    merged, run.strategy_state = run.strategy.on_weights(before, after, run.strategy_state, context)
    _refuse_broken(run, merged, "as the update strategy gave them")
    for model, weights in merged.items():
        if weights is not None and weights is not after[model]:
            run.learners[model].set_weights(weights)
    for model, taken in batches.items():
        metrics = run.learners[model].end_update()
        changed = _distance(before[model], run.learners[model].weights()) > 0
        if changed:
            run.new_version(model)
        accounts[model].add(taken, metrics, changed)


def _finite_ones(
    gradients: Mapping[str, Mapping[str, Tensor] | None],
    context: RoundContext,
    accounts: Mapping[str, round_metrics.UpdateAccount],
) -> dict[str, Mapping[str, Tensor] | None]:
    """The gradients, None in place of those that are not finite, which are warned of and counted:
    no strategy may spread them to other models."""
    kept = dict(gradients)
    for model, gradient in gradients.items():
        name = None if gradient is None else not_finite(gradient)
        if name is not None:
            kept[model] = None
            accounts[model].steps_left_out += 1
            warnings.warn(
                f"{model} is left out of step {context.step} of round {context.round}: the "
                f"gradient of {name!r} holds NaN or infinity; lower its learning rate or look at "
                "the last episodes' rewards",
                RuntimeWarning,
                stacklevel=2,
            )
    return kept


def _refuse_broken(run: Run, weights: Tensors, when: str) -> None:
    """Raise TrainingError for a model whose weights are not finite: it cannot go on, and others
    must not take them."""
    for model, own in weights.items():
        name = None if own is None else not_finite(own)
        if name is not None:
            section = run.config.sections[run.config.algorithm_of(model)].section
            raise TrainingError(
                f"the weights of {model} are not finite {when} ({name!r}): lower "
                f"{section}.learning_rate and go on from the last checkpoint"
            )


def _full_budgets(run: Run, number: int) -> dict[str, Taken]:
    taken = {
        model: buffer.take(run.versions[model], number) for model, buffer in run.buffers.items()
    }
    return {model: batch for model, batch in taken.items() if batch is not None}


def check_failures(run: Run, episodes: Sequence[Episode]) -> None:
    """Raise TrainingError where more than `max_failed_share` of the episodes failed."""
    failures = [episode.failure for episode in episodes if episode.failure is not None]
    share = len(failures) / len(episodes)
    if share > run.config.max_failed_share:
        raise TrainingError(
            f"{len(failures)} of {len(episodes)} episodes failed, max_failed_share is "
            f"{run.config.max_failed_share:g}; the first: {failures[0]}"
        )


def _snapshot(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in weights.items()}


def _distance(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> float:
    """L2 norm of the difference over all parameters."""
    squares = [full(((after[n] - t).float() ** 2).sum()) for n, t in before.items()]
    return float(torch.stack(squares).sum().sqrt())
