"""A run watched from outside: every model's live weights before and after each round, and what
the update strategy was given in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from srl_agents.episode import Episode
from srl_train.assembly import assemble
from srl_train.config import RunConfig
from srl_train.rounds import run_round
from srl_train.run import Run
from srl_train.updates import RoundContext

Weights = Mapping[str, Mapping[str, Tensor]]
"""Model -> parameter name -> a copy of its tensor."""


@dataclass
class ObservedRound:
    """One round as it was seen."""

    before: Weights
    after: Weights
    row: Mapping[str, Any]
    """What the run wrote about it."""
    returns: Mapping[str, float]
    """Model -> mean raw return of its seats, summed up here from the episodes."""
    selected: Sequence[str] | None
    """The models that the strategy says it chose, where it chooses."""
    offered: list[Weights] = field(default_factory=list)
    """Per update wave: the weights the models had reached on their own, before the strategy."""
    staleness: dict[str, list[int]] = field(default_factory=dict)
    """Model -> of every sample handed to its learner, the model's updates since it was played."""


def observe(config: RunConfig) -> list[ObservedRound]:
    """Train as configured, and return all its rounds."""
    run = assemble(config)
    offered: list[Weights] = []
    staleness: dict[str, list[int]] = {}
    _watch_strategy(run, offered)
    for name in run.learners:
        _watch_learner(run, name, staleness)
    rounds = []
    for number in range(config.rounds):
        offered.clear()
        staleness.clear()
        before = _copied({name: learner.weights() for name, learner in run.learners.items()})
        result = run_round(run, number)
        run.next_round = number + 1
        state = run.strategy_state
        rounds.append(
            ObservedRound(
                before,
                _copied({name: learner.weights() for name, learner in run.learners.items()}),
                result.row,
                mean_returns(run, result.episodes),
                state.get("selected") if isinstance(state, Mapping) else None,
                list(offered),
                dict(staleness),
            )
        )
    return rounds


def mean_returns(run: Run, episodes: Sequence[Episode]) -> dict[str, float]:
    """Model -> mean over its seats and the episodes of the sum of raw rewards."""
    means = {}
    for model in run.learners:
        sums = [
            sum(step.reward for turn in episode.turns for step in turn if step.agent == seat)
            for seat in run.seats_of(model)
            for episode in episodes
        ]
        means[model] = sum(sums) / len(sums)
    return means


def _copied(weights: Mapping[str, Mapping[str, Tensor] | None]) -> Weights:
    return {
        model: {name: tensor.detach().clone() for name, tensor in own.items()}
        for model, own in weights.items()
        if own is not None
    }


def _watch_strategy(run: Run, offered: list[Weights]) -> None:
    inner = run.strategy.on_weights

    def on_weights(before: Any, after: Any, state: Any, context: RoundContext) -> tuple[Any, Any]:
        offered.append(_copied(after))
        return inner(before, after, state, context)

    run.strategy = run.strategy._replace(on_weights=on_weights)


def _watch_learner(run: Run, name: str, staleness: dict[str, list[int]]) -> None:
    learner: Any = run.learners[name]
    inner = learner.begin_update

    def begin_update(samples: Any, *arguments: Any) -> int:
        steps: int = inner(samples, *arguments)
        ages = [run.versions[name] - sample.version for sample in samples]
        staleness.setdefault(name, []).extend(ages)
        return steps

    learner.begin_update = begin_update
