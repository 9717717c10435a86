"""Joint update of several models: their optimizer steps, combined by the update strategy."""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

import torch
from torch import Tensor

from srl_agents import seeding
from srl_agents.evaluation.progress import LongWork
from srl_train.data.sample_buffer import UpdateBatch
from srl_train.data.samples import TokenSample
from srl_train.distributed.fsdp import full
from srl_train.engine.evaluation import evaluate
from srl_train.engine.state import Run
from srl_train.errors import TrainingError
from srl_train.learners.learner import Learned, Learner, restore, state_of
from srl_train.updates import RoundContext, Tensors, not_finite, unchanged


@dataclass
class UpdateStats:
    """What one model's updates in one round came to."""

    samples: int = 0
    updates: int = 0
    steps_left_out: int = 0
    """Optimizer steps whose gradient was not finite."""
    staleness: list[int] = field(default_factory=list)
    age: list[int] = field(default_factory=list)
    metrics: dict[str, float] = field(default_factory=dict)
    weight_change: float = 0.0
    sent: int = 0
    """Bytes that the models would have sent each other over a network, of this one; and received:
    0 where the update strategy does not count them."""
    received: int = 0
    version: int = 0
    """The model's update count afterwards."""
    copied_from: str | None = None
    """The model that this one went on from."""
    dropped: Counter[str] = field(default_factory=Counter)
    """Agent -> samples thrown away as too stale, in all rounds so far."""

    def add(self, taken: UpdateBatch, metrics: Mapping[str, float]) -> None:
        """Count what one update was made from; the metrics kept are the latest update's."""
        self.samples += len(taken.samples)
        self.staleness += taken.staleness
        self.age += taken.age
        self.metrics = dict(metrics)


def update_models(
    run: Run,
    batches: Mapping[str, UpdateBatch],
    context: RoundContext,
    update_index: int,
    stats: Mapping[str, UpdateStats],
) -> dict[str, dict[str, Tensor]]:
    """One update of every model in `batches`: all stepping together where the strategy exchanges
    gradients, each on its own where it does not. A strategy that exchanges gradients or weights is
    asked for all models, whoever of them has samples. Returns copies of their weights before it.

    A model's update is counted when its weights differ afterwards, and only then.
    """
    context = context._replace(samples={m: len(own.samples) for m, own in batches.items()})
    alone = run.strategy.on_weights is unchanged and run.strategy.on_gradients is unchanged
    models = batches if alone else run.learners
    before = {model: snapshot(run.learners[model].weights()) for model in models}
    traffic = run.strategy.traffic(run.strategy_state)
    tasks = {}
    for model, taken in batches.items():
        index = list(run.learners).index(model)
        seed = seeding.of_update(run.config.seed, context.round, index, update_index)
        tasks[model] = taken.samples, seed, run.versions[model]
    if run.strategy.on_gradients is unchanged:
        learned = run.engine.each(lambda model: run.learners[model].learn(*tasks[model]), tasks)
    else:
        learned = _learned_together(run, tasks, context)
    for model, own in learned.items():
        _warn_of_left_out(model, own, context)
        stats[model].steps_left_out += len(own.left_out)
    after = run.engine.each(lambda model: run.learners[model].weights(), models)
    _refuse_broken(run, after, "after the update")
    merged, run.strategy_state = run.strategy.on_weights(before, after, run.strategy_state, context)
    _refuse_broken(run, merged, "as the update strategy gave them")
    for model, weights in merged.items():
        if weights is not None and weights is not after[model]:
            run.learners[model].set_weights(weights)
    for model in models:
        changed = distance(before[model], run.learners[model].weights()) > 0
        if changed:
            run.versions[model] += 1
            stats[model].updates += 1
            publish_update(run, model)
        if model in batches:
            stats[model].add(batches[model], learned[model].metrics)
    for model, (sent, received) in run.strategy.traffic(run.strategy_state).items():
        stats[model].sent += sent - traffic[model][0]
        stats[model].received += received - traffic[model][1]
    return before


def exchange_models(
    run: Run, context: RoundContext, stats: Mapping[str, UpdateStats]
) -> dict[str, dict[str, Tensor]]:
    """Have models go on from others, as these are now, where the update strategy says so; each is
    published. Returns copies of their weights before it."""
    copies, run.strategy_state = run.strategy.exchange(run.strategy_state, context)
    learners = run.learners
    # All are taken before any is changed: a source may go on from another itself.
    taken = {m: copy.deepcopy(state_of(learners[own.source])) for m, own in copies.items()}
    before = {model: snapshot(learners[model].weights()) for model in copies}
    for model, own in copies.items():
        restore(learners[model], taken[model])
        learners[model].scale(own.factors)
        run.versions[model] += 1
        stats[model].copied_from = own.source
        run.engine.publish(run, model)
    return before


def _learned_together(
    run: Run, tasks: Mapping[str, tuple[Sequence[TokenSample], int, int]], context: RoundContext
) -> dict[str, Learned]:
    """One update of the models of `tasks` (samples, seed, version), which meet at every step."""
    learners, each = run.learners, run.engine.each
    steps = each(lambda model: learners[model].begin_update(*tasks[model]), tasks)
    left_out: dict[str, list[tuple[int, str]]] = {model: [] for model in tasks}
    work = LongWork("updating the models")
    for step in range(max(steps.values())):
        work.at(f"step {step} of {max(steps.values())}")
        going = [model for model in tasks if step < steps[model]]
        computed = each(lambda model: learners[model].compute_gradients(), going)
        gradients: dict[str, Mapping[str, Tensor] | None] = {**dict.fromkeys(learners), **computed}
        for model, gradient in computed.items():
            broken = None if gradient is None else not_finite(gradient)
            if broken is not None:  # no strategy may spread it to other models
                gradients[model] = None
                left_out[model].append((step, broken))
        combined, run.strategy_state = run.strategy.on_gradients(
            gradients,
            run.strategy_state,
            context._replace(step=step, weights=lambda model: learners[model].weights()),
        )
        each(partial(_apply, learners, combined), combined)
    metrics = each(lambda model: learners[model].end_update(), tasks)
    return {model: Learned(metrics[model], left_out[model]) for model in tasks}


def _apply(learners: Mapping[str, Learner], gradients: Tensors, model: str) -> None:
    learners[model].apply_gradients(gradients[model])


def _warn_of_left_out(model: str, learned: Learned, context: RoundContext) -> None:
    for step, parameter in learned.left_out:
        warnings.warn(
            f"{model} is left out of step {step} of round {context.round}: the gradient of "
            f"{parameter!r} holds NaN or infinity; lower its learning rate or look at the last "
            "episodes' rewards",
            RuntimeWarning,
            stacklevel=2,
        )


def publish_update(run: Run, model: str) -> None:
    """Publish the model's newest weights if the rule of the publisher selects them."""
    run.players.publisher.publish_update(
        model,
        run.versions[model],
        partial(run.engine.publish, run, model),
        partial(_mean_reward, run, model),
    )


def _mean_reward(run: Run, model: str, episodes: int) -> float | None:
    found: float | None = evaluate(run, episodes)[0]["per_model"][model]
    return found


def _refuse_broken(run: Run, weights: Tensors, when: str) -> None:
    """Raise TrainingError for a model whose weights are not finite: it cannot go on, and others
    must not take them."""
    for model, own in weights.items():
        name = None if own is None else not_finite(own)
        if name is not None:
            raise TrainingError(
                f"the weights of {model} are not finite {when} ({name!r}): lower "
                "algorithm.learning_rate and go on from the last checkpoint"
            )


def snapshot(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """A copy that later updates do not change."""
    return {name: tensor.clone() for name, tensor in weights.items()}


def distance(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> float:
    """L2 norm of the difference over all parameters."""
    squares = [full(((after[n] - t).float() ** 2).sum()) for n, t in before.items()]
    return float(torch.stack(squares).sum().sqrt())
