"""One training round: play episodes, assign credit, update the models, record.

`train_round` is the whole round. Schedules that overlap rounds call its parts in the same order:
`plan_round`, `play`, `prepare`, `learn` and `finish`.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from srl_agents import seeding
from srl_agents.episode import Episode
from srl_agents.evaluation.progress import LongWork
from srl_train.credit import assign_credit
from srl_train.errors import TrainingError
from srl_train.fsdp import full
from srl_train.learners.learner import Learned, Learner
from srl_train.metrics.round_warnings import (
    warn_of_equal_rewards,
    warn_of_failed_games,
    warn_of_unreadable_answers,
)
from srl_train.metrics_row import metrics_row
from srl_train.plan import PlannedGames
from srl_train.pools import draw_opponents, grow_pools, load_opponents
from srl_train.run import Run, UpdateStats
from srl_train.samples import TokenSample, UpdateBatch, complete_groups, samples_for
from srl_train.scores import model_scores
from srl_train.trajectory import Game
from srl_train.updates import RoundContext, Tensors, not_finite, unchanged

Interruptible = Callable[[], AbstractContextManager[None]]
"""Context in which a signal may end the program at once, because the run's state is complete."""


@dataclass(frozen=True)
class RoundResult:
    """Outcome of a round."""

    row: dict[str, Any]
    """Row of metrics.jsonl."""
    episodes: tuple[Episode, ...]
    """All episodes, including failed ones."""


@dataclass(frozen=True)
class PlayedRound:
    """Complete episodes of a round, with credit assigned and samples built."""

    number: int
    episodes: tuple[Episode, ...]
    """All episodes, including failed ones."""
    kept: Sequence[Episode]
    """Episodes of complete groups."""
    left_out: Sequence[Episode]
    """Failed episodes, and the other episodes of their groups."""
    games: Sequence[Game]
    """Trajectories of the kept episodes."""
    samples: Mapping[str, Sequence[TokenSample]]
    """Samples of each model."""
    never_asked: Mapping[str, Mapping[str, int]]
    """Per model and agent: episodes left out because the agent never acted in their group."""
    scores: Mapping[str, float]
    """Score of each model (srl_train.scores)."""
    mode_state: Mapping[str, float]
    """State of the mode after the round."""
    warned: Sequence[str]
    """New warnings."""
    replayed_steps: int
    """Environment steps of replays and branches for credit."""


def train_round(run: Run, number: int, interruptible: Interruptible = nullcontext) -> RoundResult:
    """Play one round of episodes and update every model whose buffer is full.

    Args:
        run: The run; its models and state change.
        number: Round number, from 0. All random streams derive from the number and the run's seed.
        interruptible: Context in which the episodes are played.

    Raises:
        TrainingError: If more than `max_failed_fraction` of the episodes failed. Nothing has
            changed in that case.
    """
    began = time.perf_counter()
    with interruptible():
        episodes = play(run, plan_round(run, number))
    return learn_round(run, number, episodes, time.perf_counter() - began)


def learn_round(
    run: Run, number: int, episodes: Sequence[Episode], rollout_seconds: float
) -> RoundResult:
    """Train on all episodes of a round; raises as `train_round`."""
    began = time.perf_counter()
    played = prepare(run, number, episodes)
    updates = learn(run, played, run.learners)
    seconds = {"rollout": rollout_seconds, "train": time.perf_counter() - began}
    return finish(run, played, updates, seconds)


# 1. Plan and play.


@dataclass(frozen=True)
class RoundPlan:
    """Episodes to play in a round, group after group."""

    number: int
    games: PlannedGames
    opponents: Sequence[Mapping[str, str]]
    """Per episode: opponent pool to the snapshot that plays its agents."""

    def part(self, numbers: Sequence[int]) -> PlannedGames:
        """Return the episodes with these numbers, which have the same opponents."""
        opponents = self.opponents[numbers[0]]
        extra = {"round": self.number, **({"opponents": dict(opponents)} if opponents else {})}
        return self.games.part(numbers, extra=extra)


def plan_round(run: Run, number: int) -> RoundPlan:
    """Draw the seeds, agents and opponents of a round's episodes."""
    rollout, seed = run.config.rollout, run.config.seed
    rng = seeding.generator(seed, "round", number)
    env_seeds, policy_seeds = seeding.of_games(rng, rollout.episodes, rollout.per_start)
    first = number * rollout.groups_per_round
    seatings = run.matchmaking.seatings(range(first, first + rollout.groups_per_round))
    grow_pools(run, number)
    rng = seeding.generator(seed, "opponents", number)
    drawn = draw_opponents(run, rng, rollout.groups_per_round)
    games = PlannedGames(
        env_seeds,
        policy_seeds,
        # A group is in one phase of a staged environment, so that its episodes share their rules.
        [
            {"episode": number * len(env_seeds) + index - index % rollout.per_start}
            for index in range(len(env_seeds))
        ],
        [seats for seats in seatings for _ in range(rollout.per_start)],
        record_states=run.config.records_states,
        make_game=run.credit.make_game(run),
    )
    opponents = [opponents for opponents in drawn for _ in range(rollout.per_start)]
    return RoundPlan(number, games, opponents)


def play(run: Run, plan: RoundPlan, numbers: Iterable[int] | None = None) -> list[Episode]:
    """Play episodes of the plan, by default all of them, and return them in order.

    Episodes with the same opponents are played concurrently, because a pool loads one snapshot at
    a time.
    """
    numbers = range(len(plan.games)) if numbers is None else list(numbers)
    same_opponents: dict[tuple[str, ...], list[int]] = {}
    for number in numbers:
        same_opponents.setdefault(tuple(plan.opponents[number].values()), []).append(number)
    episodes: dict[int, Episode] = {}
    for members in same_opponents.values():
        load_opponents(run, plan.opponents[members[0]])
        episodes |= zip(members, run.engine.play(plan.part(members)), strict=True)
    return [episodes[number] for number in numbers]


# 2. Rewards to advantages, advantages to samples.


def prepare(run: Run, number: int, episodes: Sequence[Episode]) -> PlayedRound:
    """Shape rewards, assign credit and build samples.

    Rounds must be prepared in order, because each one advances the states of the credit scheme, the
    mode, the pools and the totals.

    Raises:
        TrainingError: If more than `max_failed_fraction` of the episodes failed. Nothing has
            changed in that case.
    """
    rollout = run.config.rollout
    kept, left_out = complete_groups(episodes, rollout.per_start)
    run.check_failures(episodes)
    games, replayed_steps = run.credit.replay(run, number, kept, [run.game(e) for e in kept])
    games, run.credit_state = assign_credit(
        games, rollout.per_start, run.credit.scheme, run.agent_roles(), run.credit_state
    )
    samples: dict[str, Sequence[TokenSample]] = {}
    never_asked: dict[str, Mapping[str, int]] = {}
    for model in run.learners:
        samples[model], never_asked[model] = _samples_of(run, model, kept, games, number)
    run.end_round(kept)
    return PlayedRound(
        number,
        tuple(episodes),
        kept,
        left_out,
        games,
        samples,
        never_asked,
        model_scores(kept, run.learners, run.roles),
        dict(run.mode_state),
        [
            *warn_of_failed_games(run, episodes, len(left_out)),
            *warn_of_unreadable_answers(run, kept),
        ],
        replayed_steps,
    )


def _samples_of(
    run: Run, model: str, kept: Sequence[Episode], games: Sequence[Game], number: int
) -> tuple[list[TokenSample], dict[str, int]]:
    """Return the model's samples, and per agent the episodes left out because it never acted."""
    agents = run.agents_of(model)
    if run.credit.samples is not None:
        return run.credit.samples(model, kept, number), dict.fromkeys(agents, 0)
    pairs = list(zip(kept, games, strict=True))
    return samples_for(
        {agent: [game for e, game in pairs if e.seats[agent] == model] for agent in agents},
        group_size=run.config.rollout.group_size,
        discount=run.config.rollout.discount,
        round_number=number,
    )


# 3. Update every model whose buffer is full.


def learn(run: Run, played: PlayedRound, models: Collection[str]) -> dict[str, UpdateStats]:
    """Add the round's samples to the buffers, and update models as often as a buffer is full."""
    for model in models:
        run.buffers[model].add(played.samples[model])
    updates = {model: UpdateStats() for model in models}
    first: dict[str, dict[str, Tensor]] = {}  # weights before a model's first update
    context = RoundContext(played.number, 0, played.scores)
    index = 0
    while batches := _full_batches(run, played.number, models):
        first = {**update_models(run, batches, context, index, updates), **first}
        index += 1
    for model, update in updates.items():
        if index > 1 and model in first:  # after one update, its weight change is the round's
            update.weight_change = distance(first[model], run.learners[model].weights())
        update.version = run.versions[model]
        update.dropped = run.buffers[model].dropped.copy()
    return updates


def _full_batches(run: Run, number: int, models: Collection[str]) -> dict[str, UpdateBatch]:
    taken = {model: run.buffers[model].take(run.versions[model], number) for model in models}
    return {model: batch for model, batch in taken.items() if batch is not None}


def update_models(
    run: Run,
    batches: Mapping[str, UpdateBatch],
    context: RoundContext,
    update_index: int,
    stats: Mapping[str, UpdateStats],
) -> dict[str, dict[str, Tensor]]:
    """Update the models in `batches` together; the strategy may exchange gradients or weights.

    A strategy that exchanges gradients or weights receives all models, including models without
    samples. An update counts, and is published, only if the weights changed.

    Args:
        run: The run.
        batches: Model to the samples of its update.
        context: Round and scores.
        update_index: Number of the update within the round, for the random streams.
        stats: Model to the statistics that the update is added to.

    Returns:
        Copies of the weights before the update.
    """
    strategy, learners, each = run.strategy, run.learners, run.engine.each
    context = context._replace(samples={m: len(own.samples) for m, own in batches.items()})
    alone = strategy.on_weights is unchanged and strategy.on_gradients is unchanged
    models = batches if alone else learners
    before = {
        model: {name: own.clone() for name, own in learners[model].weights().items()}
        for model in models
    }
    traffic = strategy.traffic(run.strategy_state)
    tasks = {}
    for model, batch in batches.items():
        place = list(learners).index(model)
        seed = seeding.of_update(run.config.seed, context.round, place, update_index)
        tasks[model] = batch.samples, seed, run.versions[model]
    if strategy.on_gradients is unchanged:
        learned = each(lambda model: learners[model].learn(*tasks[model]), tasks)
    else:
        learned = _learn_together(run, tasks, context)
    for model, own in learned.items():
        _warn_of_skipped_steps(model, own, context)
        stats[model].steps_left_out += len(own.left_out)
        stats[model].add(batches[model], own.metrics)
    after = each(lambda model: learners[model].weights(), models)
    _check_finite(after, "after the update")
    merged, run.strategy_state = strategy.on_weights(before, after, run.strategy_state, context)
    _check_finite(merged, "after the update strategy")
    for model, weights in merged.items():
        if weights is not None and weights is not after[model]:
            learners[model].set_weights(weights)
    for model in models:
        stats[model].weight_change = distance(before[model], learners[model].weights())
        if stats[model].weight_change > 0:
            run.versions[model] += 1
            stats[model].updates += 1
            publish = partial(run.publish, model)
            run.players.publisher.publish_update(model, run.versions[model], publish)
    for model, (sent, received) in strategy.traffic(run.strategy_state).items():
        stats[model].sent += sent - traffic[model][0]
        stats[model].received += received - traffic[model][1]
    return before


def _learn_together(
    run: Run, tasks: Mapping[str, tuple[Sequence[TokenSample], int, int]], context: RoundContext
) -> dict[str, Learned]:
    """Update the models of `tasks` (samples, seed, version) with one strategy call per step."""
    learners, each = run.learners, run.engine.each
    steps = each(lambda model: learners[model].begin_update(*tasks[model]), tasks)
    skipped: dict[str, list[tuple[int, str]]] = {model: [] for model in tasks}
    work = LongWork("updating the models")
    for step in range(max(steps.values())):
        work.at(f"step {step} of {max(steps.values())}")
        active = [model for model in tasks if step < steps[model]]
        computed = each(lambda model: learners[model].compute_gradients(), active)
        gradients: dict[str, Mapping[str, Tensor] | None] = {**dict.fromkeys(learners), **computed}
        for model, gradient in computed.items():
            broken = not_finite(gradient)
            if broken is not None:  # a strategy would spread NaN to other models
                gradients[model] = None
                skipped[model].append((step, broken))
        combined, run.strategy_state = run.strategy.on_gradients(
            gradients,
            run.strategy_state,
            context._replace(step=step),
        )
        each(partial(_apply, learners, combined), combined)
    metrics = each(lambda model: learners[model].end_update(), tasks)
    return {model: Learned(metrics[model], skipped[model]) for model in tasks}


def _apply(learners: Mapping[str, Learner], gradients: Tensors, model: str) -> None:
    learners[model].apply_gradients(gradients[model])


def _warn_of_skipped_steps(model: str, learned: Learned, context: RoundContext) -> None:
    for step, parameter in learned.left_out:
        warnings.warn(
            f"{model} is left out of step {step} of round {context.round}: the gradient of "
            f"{parameter!r} contains NaN or infinity; lower its learning rate or look at the last "
            "episodes' rewards",
            RuntimeWarning,
            stacklevel=2,
        )


def _check_finite(weights: Tensors, when: str) -> None:
    """Raise TrainingError for weights that are not finite, before other models receive them."""
    for model, own in weights.items():
        name = None if own is None else not_finite(own)
        if name is not None:
            raise TrainingError(
                f"the weights of {model} are not finite {when} ({name!r}): lower "
                "algorithm.learning_rate and resume from the last checkpoint"
            )


def distance(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> float:
    """Return the L2 norm of the difference over all parameters."""
    squares = [full(((after[n] - t).float() ** 2).sum()) for n, t in before.items()]
    return float(torch.stack(squares).sum().sqrt())


# 4. Record.


def finish(
    run: Run,
    played: PlayedRound,
    updates: Mapping[str, UpdateStats],
    seconds: Mapping[str, float],
) -> RoundResult:
    """Return the round's metrics row and episodes."""
    row = metrics_row(run, played, updates, seconds)
    equal = warn_of_equal_rewards(run, played.number, played.samples, updates)
    if warned := [*played.warned, *equal]:
        row["warnings"] = warned
    return RoundResult(row, played.episodes)
