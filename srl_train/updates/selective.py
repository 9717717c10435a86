"""Selective updates: only the best models of a round are updated."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from srl_train.config.bounds import at_least, within
from srl_train.errors import UpdateError
from srl_train.updates.strategy import RoundContext, Tensors, UpdateStrategy

NOISE = 3.0
"""Standard errors: the spread of the scores of four equal models is smaller in most rounds."""


def selective(fraction: float = 0.5, patience: int = 4) -> UpdateStrategy:
    """The top max(1, floor(fraction * n)) models by score update, the others get None.

    n counts the candidates of the round: the models with a score and a gradient. Scores are in
    standard errors (srl_train.updates.scores), and a difference of up to NOISE of them says
    nothing: each place goes to whoever waited longest, then by name, of those that are so close to
    the best one left. Models that are equally good take turns. So that nobody is left behind for
    ever, a candidate passed over in `patience` rounds updates in the next one as well, in addition
    to the top.

    Chosen at a round's first optimizer step and kept through its steps. State: "round" of the
    choice, "selected" models, rounds "waited" since its last selection per model; a round in which
    a model is no candidate does not count as waiting.

    Raises ConfigError for a fraction outside 0..1 or patience < 1, UpdateError for a score that
    is not finite.
    """
    within("selective fraction", fraction, 0.0, 1.0)
    at_least("selective patience", patience, 1)

    def init(models: Sequence[str]) -> dict[str, Any]:
        return {"round": None, "selected": [], "waited": dict.fromkeys(models, 0)}

    def on_gradients(gradients: Tensors, state: Any, context: RoundContext) -> tuple[Tensors, Any]:
        if context.step == 0 or context.round != state["round"]:
            state = _chosen(gradients, state, context, fraction, patience)
        kept = {
            model: found if model in state["selected"] else None
            for model, found in gradients.items()
        }
        return kept, state

    return UpdateStrategy(init, on_gradients)


def _chosen(
    gradients: Tensors, state: Any, context: RoundContext, fraction: float, patience: int
) -> dict[str, Any]:
    waited = dict(state["waited"])
    scores = {
        model: context.scores[model]
        for model, found in gradients.items()
        if found is not None and model in context.scores
    }
    for model, score in scores.items():
        if not math.isfinite(score):
            raise UpdateError(f"the score of {model} is {score}: give a finite number")
    ranked = _ranked(scores, waited)
    # 0.29 * 100 is 28.999999999999996 in floats; the user meant 29.
    places = max(1, math.floor(fraction * len(ranked) + 1e-9))
    overdue = [model for model in ranked[places:] if waited[model] >= patience]
    selected = sorted([*ranked[:places], *overdue])
    for model in ranked:
        waited[model] = 0 if model in selected else waited[model] + 1
    return {"round": context.round, "selected": selected, "waited": waited}


def _ranked(scores: Mapping[str, float], waited: Mapping[str, int]) -> list[str]:
    """All models, each the longest waiting of those within NOISE of the best one left."""
    left = sorted(scores, key=lambda model: (-waited[model], model))
    ranked: list[str] = []
    while left:
        best = max(scores[model] for model in left)
        ranked.append(next(model for model in left if scores[model] >= best - NOISE))
        left.remove(ranked[-1])
    return ranked
