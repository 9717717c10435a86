"""Update strategies: their configuration section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from srl_train.config.section import Names, Section, chosen_by
from srl_train.errors import ConfigError

INDEPENDENT = "asynchronous"
"""The strategy under which no model's update depends on another's."""
CUSTOM = "custom"
"""The recorded strategy of a run that was handed one as an object."""


Groups = Annotated[tuple[Annotated[Names, Field(min_length=1)], ...], Field(strict=False)]


class UpdatesSection(Section):
    """What the strategies share."""

    CHOICE: ClassVar = "strategy"

    max_staleness: Annotated[int, Field(ge=0)] = 4
    """The model's own updates after which a sample is dropped."""


class AsynchronousConfig(UpdatesSection):
    """Each model updates when its own sample budget is full."""

    strategy: Literal["asynchronous", "custom"] = "asynchronous"
    """How the models' updates are combined (docs/training/updates.md); `custom` is recorded where
    a strategy was handed over as an object, and cannot be asked for by name."""
    sample_budget: Mapping[str, Annotated[int, Field(ge=2)]] = {}
    """Model -> samples it gathers before it updates, a multiple of rollout.group_size; a round's
    worth if not named."""


class SynchronizedConfig(UpdatesSection):
    """Every optimizer step, all models apply the mean gradient."""

    strategy: Literal["synchronized"] = "synchronized"
    """How the models' updates are combined (docs/training/updates.md)."""
    groups: Groups = ()
    """Lists of models that are averaged among themselves; empty for all together."""


class ServerConfig(Section):
    """Optimizer of the common weights of federated models: SGD with momentum."""

    name: Literal["fedavgm", "diloco"] = "diloco"
    """Momentum (Reddi et al. 2021), or Nesterov's (Douillard et al. 2023)."""
    learning_rate: Annotated[float, Field(gt=0)] | None = None
    """Learning rate of the server; null is 1.0 for fedavgm and 0.7 for diloco."""
    momentum: Annotated[float, Field(gt=0, lt=1)] = 0.9
    """Share of the previous step's momentum in the next."""

    @property
    def rate(self) -> float:
        """Learning rate of the server."""
        default = 1.0 if self.name == "fedavgm" else 0.7
        return default if self.learning_rate is None else self.learning_rate


class FederatedConfig(UpdatesSection):
    """Models learn apart, and every few rounds take the weighted mean of the weights."""

    strategy: Literal["federated"] = "federated"
    """How the models' updates are combined (docs/training/updates.md)."""
    groups: Groups = ()
    """Lists of models that are averaged among themselves; empty for all together."""
    mix: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of the mean in the new weights, 0 to 1; the rest stays the model's own."""
    period: Annotated[int, Field(ge=1)] = 1
    """Rounds that models learn apart before they are averaged."""
    server: ServerConfig | None = None
    """Optimizer of the common weights; null takes the mean itself."""

    def check_run(self, rounds: int) -> None:
        """Raise ConfigError if a run of that many rounds would never average."""
        if 0 < rounds < self.period:
            raise ConfigError(
                f"updates.period: got {self.period} where rounds is {rounds}: the models "
                f"would never be averaged; give {rounds} or less"
            )


class SelectiveConfig(UpdatesSection):
    """Only the best models of a round update."""

    strategy: Literal["selective"] = "selective"
    """How the models' updates are combined (docs/training/updates.md)."""
    fraction: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Of the models that update in a round, clearly higher returns first; 0 to 1."""
    patience: Annotated[int, Field(ge=1)] = 4
    """Rounds after which a model that was passed over updates too."""


UpdatesConfig = Annotated[
    AsynchronousConfig | SynchronizedConfig | FederatedConfig | SelectiveConfig,
    Field(discriminator="strategy"),
    chosen_by("strategy", "asynchronous"),
]
