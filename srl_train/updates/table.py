"""Registry of update strategies, as the configuration names them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from srl_train.updates.asynchronous import asynchronous
from srl_train.updates.federated import TEMPERATURE, federated
from srl_train.updates.population import population
from srl_train.updates.selective import selective
from srl_train.updates.strategy import UpdateStrategy
from srl_train.updates.synchronized import synchronized

STRATEGIES: Mapping[str, Callable[[Any], UpdateStrategy]] = {
    "synchronized": lambda updates: synchronized(updates.groups),
    "asynchronous": lambda updates: asynchronous(),
    "federated": lambda updates: federated(
        updates.weighting.by,
        getattr(updates.weighting, "temperature", TEMPERATURE),
        updates.mix,
        updates.groups,
        period=updates.period,
        proximal=updates.proximal,
        server=updates.server,
        adapters=updates.adapters,
    ),
    "population": lambda updates: population(updates.every, updates.perturb),
    "selective": lambda updates: selective(updates.fraction, updates.patience),
}
"""Name -> the `updates` section of a configuration -> strategy."""
