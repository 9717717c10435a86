"""One training round: play episodes, assign credit, update the models, record.

`train_round` is the whole round. Its parts are `plan_round`, `play`, `prepare`, `learn` and
`finish`. Schedules that overlap rounds call these parts in the same order.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from srl_agents import seeding
from srl_agents.episode import Episode
from srl_agents.evaluation.progress import LongWork
from srl_train.credit import AgentRoles, assign_credit
from srl_train.errors import TrainingError
from srl_train.fsdp import full
from srl_train.learners.learner import Learned
from srl_train.metrics.round_warnings import (
    warn_of_equal_rewards,
    warn_of_failed_games,
    warn_of_unreadable_answers,
)
from srl_train.metrics_row import metrics_row
from srl_train.plan import PlannedGames
from srl_train.pools import draw_opponents, grow_pools, load_opponents
from srl_train.run import PlayedRound, Run, UpdateStats
from srl_train.samples import TokenSample, UpdateBatch, complete_groups, samples_for
from srl_train.scores import model_scores
from srl_train.trajectory import Game
from srl_train.updates import RoundContext, Tensors, not_finite, unchanged

Weights = Mapping[str, Tensor]
"""Parameter name to tensor."""
Interruptible = Callable[[], AbstractContextManager[None]]
"""Context in which a signal may end the program at once, because the run's state is complete."""


@dataclass(frozen=True)
class RoundResult:
    """Outcome of a round: its metrics row, and records of all episodes, failed ones included."""

    row: dict[str, Any]
    episodes: tuple[Episode, ...]


def train_round(run: Run, number: int, interruptible: Interruptible = nullcontext) -> RoundResult:
    """Play one round, update the models whose buffers are full, and return a RoundResult.

    Args:
        run: The run; its models and state change, but not `next_round`.
        number: Round number, from 0. Rounds must be trained in order.
        interruptible: Function that returns the context in which the episodes are played.

    Raises:
        TrainingError: If more than `max_failed_fraction` of the episodes failed (no model has
            changed in that case), or a reward, loss or weight is not finite.
        EpisodeTimeout: If the episodes exceed the setting `rollout.timeout`.
    """
    began = time.perf_counter()
    with interruptible():
        episodes = play(run, plan_round(run, number))
    return learn_round(run, number, episodes, time.perf_counter() - began)


def learn_round(
    run: Run, number: int, episodes: Sequence[Episode], rollout_seconds: float
) -> RoundResult:
    """Update the models with the episodes of round `number`, and return a RoundResult.

    `episodes` are all episodes of the round, group after group; groups with a failed episode are
    not trained on. `rollout_seconds` is recorded. Raises TrainingError as `prepare` and `learn`.
    """
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
    """Per episode: opponent pool to the name of the snapshot that plays its agents."""

    def part(self, numbers: Sequence[int]) -> PlannedGames:
        """Return the episodes at the indices `numbers`, which must have the same opponents.

        Records will contain the opponents and the round in `extra`.
        """
        opponents = self.opponents[numbers[0]]
        extra = {"round": self.number, **({"opponents": dict(opponents)} if opponents else {})}
        return self.games.part(numbers, extra=extra)


def plan_round(run: Run, number: int) -> RoundPlan:
    """Draw the seeds, players and opponents of a round's episodes, and return a RoundPlan.

    First calls `grow_pools`, which may play episodes, and raises the errors of `grow_pools`.
    """
    rollout, seed = run.config.rollout, run.config.seed
    groups, size = rollout.groups_per_round, rollout.group_size
    rng = seeding.generator(seed, "round", number)
    env_seeds, policy_seeds = seeding.of_games(rng, rollout.episodes, size)
    seatings = run.matchmaking.seatings(range(number * groups, (number + 1) * groups))
    # All episodes of a group have the number of its first episode: environments with stages depend
    # on the number, and episodes that are compared must have the same rules.
    options = [
        {"episode": number * rollout.episodes + group * size}
        for group in range(groups)
        for _ in range(size)
    ]
    grow_pools(run, number)
    drawn = draw_opponents(run, seeding.generator(seed, "opponents", number), groups)
    games = PlannedGames(
        env_seeds,
        policy_seeds,
        options,
        [agents for agents in seatings for _ in range(size)],
        record_states=run.config.records_states,
    )
    return RoundPlan(number, games, [opponents for opponents in drawn for _ in range(size)])


def play(run: Run, plan: RoundPlan) -> list[Episode]:
    """Publish the drawn snapshots, play the planned episodes, and return them in the plan's order.

    Failed episodes are included; TrainingError if they are more than `max_failed_fraction`. Only
    episodes with the same opponents are played concurrently. Raises EpisodeTimeout if these exceed
    the setting `rollout.timeout`.
    """
    by_opponents: dict[tuple[str, ...], list[int]] = {}
    for number, opponents in enumerate(plan.opponents):
        by_opponents.setdefault(tuple(opponents.values()), []).append(number)
    episodes: dict[int, Episode] = {}
    for members in by_opponents.values():
        load_opponents(run, plan.opponents[members[0]])
        episodes |= zip(members, run.engine.play(plan.part(members)), strict=True)
    played = [episodes[number] for number in range(len(plan.games))]
    run.check_failures(played)
    return played


# 2. Rewards to advantages, advantages to samples.


def prepare(run: Run, number: int, episodes: Sequence[Episode]) -> PlayedRound:
    """Shape rewards, assign credit and build samples, and return them as a PlayedRound.

    Groups with a failed episode are left out. Rounds must be prepared in order. New warnings are
    logged.

    Args:
        run: The run; the states of mode, credit and pools and the totals change.
        number: Round number, from 0.
        episodes: All episodes of the round, including failed ones, group after group.

    Raises:
        TrainingError: If a reward is not finite.
    """
    rollout = run.config.rollout
    kept, left_out = complete_groups(episodes, rollout.group_size)
    games, replayed_steps = run.credit.replay(run, number, kept, [run.game(e) for e in kept])
    roles = AgentRoles(tuple(run.seats), run.teams, run.speaks_first)
    games, run.credit_state = assign_credit(
        games, rollout.group_size, run.credit.scheme, roles, run.credit_state
    )
    samples: dict[str, Sequence[TokenSample]] = {}
    never_asked: dict[str, Mapping[str, int]] = {}
    for model in run.learners:
        samples[model], never_asked[model] = _samples_of(run, model, kept, games, number)
    run.end_round(kept)
    warned = warn_of_failed_games(run, episodes, len(left_out))
    warned += warn_of_unreadable_answers(run, kept)
    return PlayedRound(
        number,
        tuple(episodes),
        kept,
        left_out,
        games,
        samples,
        never_asked,
        scores=model_scores(kept, run.learners, run.roles),
        mode_state=dict(run.mode_state),
        warned=warned,
        replayed_steps=replayed_steps,
    )


def _samples_of(
    run: Run, model: str, kept: Sequence[Episode], games: Sequence[Game], number: int
) -> tuple[list[TokenSample], dict[str, int]]:
    rollout, agents = run.config.rollout, run.agents_of(model)
    played: dict[str, list[Game]] = {agent: [] for agent in agents}
    for episode, game in zip(kept, games, strict=True):
        for agent in episode.agents_of(model):
            played[agent].append(game)
    return samples_for(
        played, group_size=rollout.group_size, discount=rollout.discount, round_number=number
    )


# 3. Update every model whose buffer is full.


def learn(run: Run, played: PlayedRound, models: Collection[str]) -> dict[str, UpdateStats]:
    """Add the samples of `models` to their buffers, and update until none has a full batch.

    Changed weights are published. Returns model -> statistics of its updates in this round. Raises
    TrainingError if a loss or weights are not finite.
    """
    for model in models:
        run.buffers[model].add(played.samples[model])
    stats = {model: UpdateStats() for model in models}
    context = RoundContext(played.number, 0, played.scores)
    start: dict[str, Weights] = {}  # weights before a model's first update
    updates = 0
    while True:
        taken = {m: run.buffers[m].take(run.versions[m], played.number) for m in models}
        batches = {model: batch for model, batch in taken.items() if batch is not None}
        if not batches:
            break
        start = {**update_models(run, batches, context, updates, stats), **start}
        updates += 1
    if updates > 1:  # after one update, its weight change is the round's
        for model, weights in start.items():
            if model in stats:
                stats[model].weight_change = distance(weights, run.learners[model].weights())
    for model, update in stats.items():
        update.version = run.versions[model]
        update.dropped = run.buffers[model].dropped.copy()
    return stats


def update_models(
    run: Run,
    batches: Mapping[str, UpdateBatch],
    context: RoundContext,
    index: int,
    stats: Mapping[str, UpdateStats],
) -> dict[str, Weights]:
    """Train the models on one batch each, apply the update strategy, and publish changed weights.

    An update strategy that exchanges gradients or weights can also change models without a batch.
    An update counts, and is published, only if the weights changed. Optimizer steps that are
    skipped because of a gradient that is not finite cause a RuntimeWarning.

    Args:
        run: The run; its models, versions and the strategy's state change.
        batches: Model to the samples of its update.
        context: Round and scores.
        index: Number of the update within the round, from 0, for its seed.
        stats: Model to its statistics, changed in place, for each model that could change.

    Returns:
        Model to a copy of its weights before the update, for each model that could change.

    Raises:
        TrainingError: If a loss or weights are not finite.
    """
    strategy, learners = run.strategy, run.learners
    independent = strategy.on_gradients is unchanged and strategy.on_weights is unchanged
    models = list(batches if independent else learners)
    context = context._replace(samples={m: len(batch.samples) for m, batch in batches.items()})
    before: dict[str, Weights] = {
        model: {name: tensor.clone() for name, tensor in learners[model].weights().items()}
        for model in models
    }
    traffic = strategy.traffic(run.strategy_state)

    for model, learned in _train(run, batches, context, index).items():
        stats[model].add(batches[model], learned.metrics)
        stats[model].steps_left_out += len(learned.left_out)
        for step, parameter in learned.left_out:
            warnings.warn(
                f"{model} is left out of step {step} of round {context.round}: the gradient of "
                f"{parameter!r} contains NaN or infinity; lower its learning rate or look at the "
                "last episodes' rewards",
                RuntimeWarning,
                stacklevel=2,
            )

    after = run.engine.each(lambda model: learners[model].weights(), models)
    _check_finite(after, "after the update")
    merged, run.strategy_state = strategy.on_weights(before, after, run.strategy_state, context)
    _check_finite(merged, "after the update strategy")
    for model, weights in merged.items():
        if weights is not None and weights is not after[model]:
            learners[model].set_weights(weights)

    for model in models:
        stats[model].weight_change = distance(before[model], learners[model].weights())
        if stats[model].weight_change > 0:
            stats[model].updates += 1
            run.versions[model] += 1
            run.publish(model)

    for model, exchanged in strategy.traffic(run.strategy_state).items():
        stats[model].exchanged += exchanged - traffic[model]
    return before


def _train(
    run: Run, batches: Mapping[str, UpdateBatch], context: RoundContext, index: int
) -> dict[str, Learned]:
    learners, each = run.learners, run.engine.each
    tasks = {}
    for model, batch in batches.items():
        place = list(learners).index(model)
        seed = seeding.of_update(run.config.seed, context.round, place, index)
        tasks[model] = batch.samples, seed, run.versions[model]
    if run.strategy.on_gradients is unchanged:
        return each(lambda model: learners[model].learn(*tasks[model]), tasks)

    steps = each(lambda model: learners[model].begin_update(*tasks[model]), tasks)
    skipped: dict[str, list[tuple[int, str]]] = {model: [] for model in tasks}
    work = LongWork("updating the models")
    for step in range(max(steps.values())):
        work.at(f"step {step} of {max(steps.values())}")
        active = [model for model in tasks if step < steps[model]]
        for model, parameter in _step_together(run, active, context._replace(step=step)).items():
            skipped[model].append((step, parameter))
    metrics = each(lambda model: learners[model].end_update(), tasks)
    return {model: Learned(metrics[model], skipped[model]) for model in tasks}


def _step_together(run: Run, active: Collection[str], context: RoundContext) -> dict[str, str]:
    learners, each = run.learners, run.engine.each
    computed = each(lambda model: learners[model].compute_gradients(), active)
    broken = {}
    for model, gradient in computed.items():
        parameter = not_finite(gradient)
        if parameter is not None:
            broken[model] = parameter
    gradients = {model: None if model in broken else computed.get(model) for model in learners}
    combined, run.strategy_state = run.strategy.on_gradients(gradients, run.strategy_state, context)
    each(lambda model: learners[model].apply_gradients(combined[model]), combined)
    return broken


def _check_finite(weights: Tensors, when: str) -> None:
    for model, tensors in weights.items():
        name = None if tensors is None else not_finite(tensors)
        if name is not None:
            raise TrainingError(
                f"the weights of {model} are not finite {when} ({name!r}): lower "
                "algorithm.learning_rate and resume from the last checkpoint"
            )


def distance(before: Weights, after: Weights) -> float:
    """Return the L2 norm of `after` - `before` over all parameters in `before`."""
    squares = [full(((after[n] - t).float() ** 2).sum()) for n, t in before.items()]
    return float(torch.stack(squares).sum().sqrt())


# 4. Record.


def finish(
    run: Run,
    played: PlayedRound,
    updates: Mapping[str, UpdateStats],
    seconds: Mapping[str, float],
) -> RoundResult:
    """Return the round's RoundResult, and log a warning if equal returns left models unchanged.

    The row has the "warnings" that are new in the round, if any. `updates` is model -> statistics,
    and `seconds` has the times of "rollout" and "train".
    """
    row = metrics_row(run, played, updates, seconds)
    equal = warn_of_equal_rewards(run, played.number, played.samples, updates)
    if warned := [*played.warned, *equal]:
        row["warnings"] = warned
    return RoundResult(row, played.episodes)
