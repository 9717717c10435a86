"""A run watched from outside: every model's live weights before and after each round, and what
the update strategy was given in between."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from srl_agents.episode import Episode
from srl_train.config.run import RunConfig
from srl_train.engine.assemble import assemble
from srl_train.engine.rounds import run_round
from srl_train.engine.state import Run
from srl_train.updates import RoundContext
from srl_train.updates.scores import CERTAIN

Weights = Mapping[str, Mapping[str, Tensor]]
"""Model -> parameter name -> a copy of its tensor."""


@dataclass
class ObservedRound:
    """One round as it was seen."""

    before: Weights
    after: Weights
    row: Mapping[str, Any]
    """What the run wrote about it."""
    scores: Mapping[str, float]
    """Model -> how it fared against the others, worked out here from the episodes, in standard
    errors."""
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
                scores_by_hand(run, result.episodes),
                state.get("selected") if isinstance(state, Mapping) else None,
                list(offered),
                dict(staleness),
            )
        )
    return rounds


def scores_by_hand(run: Run, episodes: Sequence[Episode]) -> dict[str, float]:
    """docs/updates.md, "Scores", with numpy, for a run whose models hold one agent each, all alike,
    and whose games all came to their end."""
    models = list(run.learners)
    returns_EM = np.array(
        [[episode.returns()[run.seats_of(model)[0]] for model in models] for episode in episodes]
    )
    excess_EM = returns_EM - returns_EM.mean(axis=1, keepdims=True)
    excess_EM = excess_EM.round(12)  # equal returns are equal
    of_starts_SEM = excess_EM.reshape(run.config.rollout.groups_per_round, -1, len(models))
    errors_M = _errors(excess_EM)
    if len(of_starts_SEM) > 1:
        errors_M = np.maximum(errors_M, _errors(of_starts_SEM.mean(axis=1)))
    with np.errstate(divide="ignore", invalid="ignore"):
        scores_M = np.nan_to_num(excess_EM.mean(axis=0) / errors_M).clip(-CERTAIN, CERTAIN)
    return dict(zip(models, scores_M.tolist(), strict=True))


def _errors(values_NM: NDArray[np.float64]) -> NDArray[np.float64]:
    errors_M: NDArray[np.float64] = values_NM.std(axis=0, ddof=1) / np.sqrt(len(values_NM))
    return errors_M


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
