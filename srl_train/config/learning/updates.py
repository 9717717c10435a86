"""Update strategies: their configuration section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from srl_train.config.learning.learners import SurrogateConfig
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


class ServerSection(Section):
    """What the server optimizers share."""

    CHOICE: ClassVar = "name"


class AverageServer(ServerSection):
    """The mean itself is taken: federated averaging (McMahan et al. 2017)."""

    name: Literal["average"] = "average"
    """What steps from the last common weights towards the mean (docs/training/updates.md)."""


class MomentumServer(ServerSection):
    """Momentum: FedAvgM (Reddi et al. 2021), or Nesterov's: DiLoCo (Douillard et al. 2023)."""

    name: Literal["fedavgm", "diloco"] = "fedavgm"
    """Optimizer of the common weights (docs/training/updates.md)."""
    learning_rate: Annotated[float, Field(gt=0)] | None = None
    """Learning rate of the server; null is 1.0 for fedavgm and 0.7 for diloco."""
    momentum: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Share of the previous step's momentum in the next."""

    @model_validator(mode="after")
    def _check_momentum(self) -> Self:
        if self.name == "diloco" and not self.momentum:
            raise ConfigError("momentum: got 0: diloco needs more than 0")
        return self

    @property
    def rate(self) -> float:
        """Learning rate of the server."""
        default = 1.0 if self.name == "fedavgm" else 0.7
        return default if self.learning_rate is None else self.learning_rate


class AdamServer(ServerSection):
    """Adam on the way to the mean: FedAdam (Reddi et al. 2021)."""

    name: Literal["fedadam"] = "fedadam"
    """What steps from the last common weights towards the mean (docs/training/updates.md)."""
    learning_rate: Annotated[float, Field(gt=0)] = 0.01
    """Of the server: how far a weight moves in a first step."""
    beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    """Share of the past in the mean of the ways."""
    beta2: Annotated[float, Field(ge=0, lt=1)] = 0.99
    """Share of the past in the mean of their squares."""
    tau: Annotated[float, Field(gt=0)] = 1e-3
    """Added to the root of that mean: the way below which steps shrink."""


Server = AverageServer | MomentumServer | AdamServer


class FederatedConfig(UpdatesSection):
    """Models learn apart, and every few rounds take the weighted mean of the weights."""

    READ_WHERE: ClassVar = {
        "temperature": ("weighting is 'scores'", lambda own: own.weighting == "scores")
    }

    strategy: Literal["federated"] = "federated"
    """How the models' updates are combined (docs/training/updates.md)."""
    groups: Groups = ()
    """Lists of models that are averaged among themselves; empty for all together."""
    weighting: Literal["samples", "scores"] = "samples"
    """Weight of a model in the mean: its number of samples, or softmax(score / temperature)."""
    temperature: Annotated[float, Field(gt=0)] = 4.0
    """Temperature of `scores`, in standard errors of return: lower favors the best model."""
    mix: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Share of the mean in the new weights, 0 to 1; the rest stays the model's own."""
    period: Annotated[int, Field(ge=1)] = 1
    """Rounds that models learn apart before they are averaged."""
    proximal: Annotated[float, Field(ge=0)] = 0.0
    """FedProx's mu: each model's loss gets mu / 2 times the squared distance from the last common
    weights."""
    server: Annotated[Server, Field(discriminator="name"), chosen_by("name", "average")] = (
        AverageServer()
    )
    """How the new common weights come from the mean."""

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


class PopulationConfig(UpdatesSection):
    """Models learn apart; who is clearly worse goes on from a better one, with other settings."""

    strategy: Literal["population"] = "population"
    """How the models' updates are combined (docs/training/updates.md)."""
    every: Annotated[int, Field(ge=1)] = 10
    """Rounds between two comparisons."""
    perturb: Annotated[
        tuple[Literal["learning_rate", "beta", "entropy_coef", "clip_range"], ...],
        Field(strict=False),
    ] = ("learning_rate",)
    """Settings of `algorithm` that are multiplied by .8 or 1.25 then."""

    def check_run(self, learned_by: Mapping[str, SurrogateConfig]) -> None:
        """Raise ConfigError for models, by what they learn by, that cannot go on from others."""
        if len(learned_by) < 2:
            raise ConfigError("updates.strategy: got 'population' for 1 model: give 2 or more")
        if len({(type(own), own.loss) for own in learned_by.values()}) > 1:
            raise ConfigError(
                "updates.strategy: got 'population' for models of several algorithms: one cannot "
                "take the optimizer state of another; give all models the same algorithm"
            )
        for model, own in learned_by.items():
            for name in self.perturb:
                if not getattr(own, name, own.trl.get(name)):
                    raise ConfigError(
                        f"updates.perturb: got {name!r}, of which the algorithm of {model} has "
                        "none, and a factor changes nothing: give it a value above 0, or leave "
                        "it out here"
                    )


UpdatesConfig = Annotated[
    AsynchronousConfig | SynchronizedConfig | FederatedConfig | SelectiveConfig | PopulationConfig,
    Field(discriminator="strategy"),
    chosen_by("strategy", "asynchronous"),
]
