"""The named credit assignments, as a run's configuration asks for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from srl_train.credit.assignment import CreditAssignment
from srl_train.credit.per_agent import per_agent

if TYPE_CHECKING:
    from srl_train.config import CreditConfig

ASSIGNMENTS: Mapping[str, Callable[[CreditConfig, float], CreditAssignment]] = {
    "per_agent": lambda credit, discount: per_agent(),
}
"""Name -> (the `credit` section of a configuration, discount per turn) -> assignment."""
