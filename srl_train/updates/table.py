"""The named update strategies, as a run's configuration asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from srl_train.updates.asynchronous import asynchronous
from srl_train.updates.federated import federated
from srl_train.updates.selective import selective
from srl_train.updates.strategy import UpdateStrategy
from srl_train.updates.synchronized import synchronized

if TYPE_CHECKING:
    from srl_train.config.run import UpdatesConfig

STRATEGIES: Mapping[str, Callable[[UpdatesConfig], UpdateStrategy]] = {
    "synchronized": lambda updates: synchronized(updates.groups),
    "asynchronous": lambda updates: asynchronous(),
    "federated": lambda updates: federated(
        updates.federation_weights,
        updates.federation_temperature,
        updates.federation_mix,
        updates.groups,
    ),
    "selective": lambda updates: selective(updates.selected_fraction, updates.patience),
}
"""Name -> the `updates` section of a configuration -> strategy."""
