"""Population-based training: `updates.strategy: population`."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from typing import Any

from srl_agents import seeding
from srl_train.config.bounds import at_least
from srl_train.scores import standard_error
from srl_train.updates import (
    SIGNIFICANT,
    Copy,
    RoundContext,
    UpdateStrategy,
    check_compatible,
)

PERTURBATIONS = (0.8, 1.25)
"""Factors of a hyperparameter when a model is copied; one cancels the other."""
MINIMUM_STARTS = 5
"""Starts from which a model must have played before it is compared."""


def population(every: int = 10, perturb: Collection[str] = ("learning_rate",)) -> UpdateStrategy:
    """Let a significantly worse model copy a better one and perturb its hyperparameters.

    Population-based training (Jaderberg et al. 2017, sec. 3: exploit and explore). Models learn
    independently; every `every` rounds each model is compared with all others by its excess
    returns per start since the last comparison, see `significantly_better`. Among several better
    models, one is drawn. The copy includes weights, optimizer state and hyperparameters, of which
    each in `perturb` is multiplied by .8 or 1.25.

    State: "returns", model to its excess returns since the last comparison.

    Raises:
        ConfigError: For `every` below 1.
        UpdateError: For models with different parameters.
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
            better = [other for other, found in returns.items() if significantly_better(found, own)]
            if better:
                source = better[int(rng.integers(len(better)))]
                factors = {name: PERTURBATIONS[int(rng.integers(2))] for name in perturb}
                copies[model] = Copy(source, factors)
        return copies, init(list(returns))

    return UpdateStrategy(init, check=check_compatible, exchange=exchange)


def significantly_better(one: Sequence[float], other: Sequence[float]) -> bool:
    """Return True if the first mean is higher by more than SIGNIFICANT standard errors (Welch)."""
    if min(len(one), len(other)) < MINIMUM_STARTS:
        return False
    above_other = math.fsum(one) / len(one) - math.fsum(other) / len(other)
    rounding = 1e-9 * max(map(abs, (*one, *other)))
    error = math.hypot(standard_error(one), standard_error(other))
    return above_other > max(SIGNIFICANT * error, rounding)


def build_strategy(section: Any) -> UpdateStrategy:
    """Return the strategy of a configuration's `updates` section (STRATEGIES)."""
    return population(section.every, section.perturb)
