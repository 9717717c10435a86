"""Population-based training: models that fall behind go on from better ones, with other settings.

Jaderberg et al. 2017, *Population Based Training of Neural Networks*, sec. 3: exploit and explore.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from srl_agents import seeding
from srl_train.config.bounds import at_least
from srl_train.updates.averaging import check_compatible
from srl_train.updates.scores import standard_error
from srl_train.updates.selective import NOISE
from srl_train.updates.strategy import Copy, RoundContext, UpdateStrategy

FACTORS = (0.8, 1.25)
"""Of a hyper-parameter when a model goes on from another; one undoes the other."""
FEWEST = 5
"""Starts from which a model must have played to be compared."""


def population(every: int = 10, perturb: Collection[str] = ("learning_rate",)) -> UpdateStrategy:
    """Every model learns on its own; every `every` rounds, whoever is clearly worse than another
    one takes that one's weights, optimizer state and hyper-parameters.

    Clearly worse: what the two earned above like agents in the rounds since, one number for each
    start, differs by more than NOISE standard errors of the difference (Welch's), over FEWEST
    starts of each at least. Of several better ones, one is drawn. Of what was taken, each
    hyper-parameter of `perturb` is multiplied by .8 or 1.25.

    State: "returns", model -> those numbers. Raises ConfigError for every < 1, UpdateError where
    parameter names or shapes differ.
    """
    at_least("population every", every, 1)

    def init(models: Sequence[str]) -> dict[str, Any]:
        return {"returns": {model: [] for model in models}}

    def exchange(state: Any, context: RoundContext) -> tuple[dict[str, Copy], Any]:
        returns = {
            model: [*known, *context.returns.get(model, ())]
            for model, known in state["returns"].items()
        }
        if (context.round + 1) % every:
            return {}, {"returns": returns}
        rng = seeding.generator(context.seed, "population", context.round)
        copies = {}
        for model, own in returns.items():
            better = [other for other, found in returns.items() if clearly_more(found, own)]
            if better:
                source = better[int(rng.integers(len(better)))]
                factors = {name: FACTORS[int(rng.integers(2))] for name in perturb}
                copies[model] = Copy(source, factors)
        return copies, init(list(returns))

    return UpdateStrategy(init, check=check_compatible, exchange=exchange)


def clearly_more(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether the mean of one is above that of the other by more than what is noise."""
    if min(len(one), len(other)) < FEWEST:
        return False
    above = math.fsum(one) / len(one) - math.fsum(other) / len(other)
    rounding = 1e-9 * max(map(abs, (*one, *other)))
    error = math.hypot(standard_error(one), standard_error(other))
    return above > max(NOISE * error, rounding)
