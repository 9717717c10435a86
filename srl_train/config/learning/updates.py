"""Section `updates` of a run: how the updates of several models are combined."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import metadata
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from srl_train.config.section import Names, Section, chosen_by

INDEPENDENT = "asynchronous"
"""Strategy in which no model's update depends on another model."""
CUSTOM = "custom"
"""Strategy recorded for a run whose strategy was passed to the Trainer as an object."""
_OWN = (INDEPENDENT, "synchronized", "federated", "selective")
_ADDED = (entry.name for entry in metadata.entry_points(group="core_srl.strategies"))
STRATEGY_NAMES = tuple(dict.fromkeys((*_OWN, *_ADDED)))
"""Names in `srl_train.updates.STRATEGIES`; those of installed packages have no own section."""
PlainName = Literal[(INDEPENDENT, CUSTOM, *STRATEGY_NAMES[len(_OWN) :])]  # type: ignore[valid-type]
Groups = Annotated[tuple[Annotated[Names, Field(min_length=1)], ...], Field(strict=False)]


class UpdatesSection(Section):
    """Base class of the section `updates`: update strategy, and maximum age of samples."""

    CHOICE: ClassVar = "strategy"

    max_staleness: Annotated[int, Field(ge=0)] = 4
    """Maximum age of a sample, in updates of its model. Groups with an older one are dropped."""


class AsynchronousConfig(UpdatesSection):
    """Independent updates: after each round, or when a model's sample budget is full."""

    strategy: PlainName = "asynchronous"  # type: ignore[valid-type]
    """Update strategy, which combines the updates of the models (docs/training/updates.md).
    `custom` is only recorded, for a strategy that was passed to the Trainer as an object."""
    sample_budget: Mapping[str, Annotated[int, Field(ge=2)]] = {}
    """Number of samples per update by model, multiples of rollout.group_size. A model that is not
    listed updates after each round."""


class SynchronizedConfig(UpdatesSection):
    """Synchronized updates: at each optimizer step, a group's models apply their mean gradient."""

    strategy: Literal["synchronized"] = "synchronized"
    """Update strategy, which combines the updates of the models (docs/training/updates.md)."""
    groups: Groups = ()
    """Lists of models that are averaged with each other; others update alone. [] averages all."""


class ServerConfig(Section):
    """Server optimizer of federated averaging: SGD with momentum on the common weights."""

    name: Literal["fedavgm", "diloco"] = "diloco"
    """Server optimizer: SGD with momentum (Reddi et al. 2021), or with Nesterov momentum (Douillard
    et al. 2023)."""
    learning_rate: Annotated[float, Field(gt=0)] | None = None
    """Learning rate of the server optimizer. null is 1.0 for fedavgm and 0.7 for diloco."""
    momentum: Annotated[float, Field(gt=0, lt=1)] = 0.9
    """Momentum of the server optimizer, above 0 and below 1."""

    @property
    def rate(self) -> float:
        """The setting `learning_rate`; if it is None, 1.0 for "fedavgm" and 0.7 for "diloco"."""
        default = 1.0 if self.name == "fedavgm" else 0.7
        return default if self.learning_rate is None else self.learning_rate


class FederatedConfig(UpdatesSection):
    """Federated averaging: every `period` rounds, weights are averaged in proportion to samples."""

    strategy: Literal["federated"] = "federated"
    """Update strategy, which combines the updates of the models (docs/training/updates.md)."""
    groups: Groups = ()
    """Lists of models that are averaged with each other; others update alone. [] averages all."""
    mix: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of common weights in a model's new weights, 0 to 1."""
    period: Annotated[int, Field(ge=1)] = 1
    """Number of rounds between two averages."""
    server: ServerConfig | None = None
    """Server optimizer, which applies the mean to the common weights. null uses the mean itself."""


class SelectiveConfig(UpdatesSection):
    """Selective updates: the best models of a round update, others after `patience` rounds."""

    strategy: Literal["selective"] = "selective"
    """Update strategy, which combines the updates of the models (docs/training/updates.md)."""
    fraction: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Fraction of the models, best first, that update in a round, rounded down to 1 or more."""
    patience: Annotated[int, Field(ge=1)] = 4
    """Number of rounds without an update after which a model updates regardless of its return."""


UpdatesConfig = Annotated[
    AsynchronousConfig | SynchronizedConfig | FederatedConfig | SelectiveConfig,
    Field(discriminator="strategy"),
    chosen_by("strategy", "asynchronous"),
]
