"""Update strategies: how the updates of several models are combined."""

from srl_train.updates.asynchronous import asynchronous
from srl_train.updates.averaging import check_compatible
from srl_train.updates.federated import federated
from srl_train.updates.population import population
from srl_train.updates.selective import selective
from srl_train.updates.strategy import (
    Copy,
    RoundContext,
    Tensors,
    UpdateStrategy,
    chain,
    no_state,
    unchanged,
)
from srl_train.updates.synchronized import synchronized
from srl_train.updates.table import STRATEGIES

__all__ = [
    "STRATEGIES",
    "Copy",
    "RoundContext",
    "Tensors",
    "UpdateStrategy",
    "asynchronous",
    "chain",
    "check_compatible",
    "federated",
    "no_state",
    "population",
    "selective",
    "synchronized",
    "unchanged",
]
