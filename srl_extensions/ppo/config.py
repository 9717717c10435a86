"""Section `algorithm` of models that learn by PPO, and the presets of published settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from srl_train.config.learning.learners import Count, NotNegative, Positive, SurrogateConfig


class PpoConfig(SurrogateConfig):
    """Proximal policy optimisation (Schulman et al. 2017): a critic in place of the group."""

    LEARNER: ClassVar = "srl_extensions.ppo.trl_ppo:PpoLearner"
    OWN_ADVANTAGES: ClassVar = True

    name: Literal["ppo"] = "ppo"
    """What models learn by (docs/training/ppo.md)."""
    minibatches: Count = 2
    """Parts an update's samples are split into, one optimizer step each; a divisor of
    rollout.group_size."""
    num_iterations: Count = 2
    """Passes over each update's samples (PPO's epochs)."""
    critic: Literal["shared", "separate", "central"] = "separate"
    """A value head on the policy's backbone, on a backbone of its own, or a critic that sees the
    joint state (MAPPO's)."""
    gae_lambda: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Lambda of the advantages, per turn: 0 trusts the critic, 1 the rewards alone."""
    normalize_advantages: Literal["group", "update", "none"] = "group"
    """An update's advantages get mean 0 and deviation 1: over the same turn in the same group, or
    over all; or neither is done."""
    value_coefficient: NotNegative = 0.05
    """Weight of the value loss."""
    value_normalisation: Literal["none", "running"] = "none"
    """What the critic learns: returns as they are, or their distance from the running mean of all
    updates' returns in running standard deviations (MAPPO's)."""
    value_clip: Positive | None = None
    """How far a value may move in one update before its loss is cut off, in units of return, or of
    its deviation with value_normalisation; null sets no bound."""
    value_learning_rate: Positive | None = None
    """Of the critic's own parameters; null takes the policy's."""
    entropy_coef: NotNegative = 0.0
    """Weight of the entropy bonus: the mean entropy per answer token, in nats."""

    @property
    def reads_states(self) -> bool:
        """See SurrogateConfig."""
        return self.critic == "central"

    @property
    def own_units(self) -> bool:
        """See SurrogateConfig."""
        return self.value_normalisation == "running"


SECTION = PpoConfig

_YU: Mapping[str, Any] = {
    "name": "ppo",
    "value_normalisation": "running",
    "normalize_advantages": "update",
    "gae_lambda": 0.95,
    "num_iterations": 5,
    "minibatches": 1,
    "value_coefficient": 1.0,
    "value_clip": 0.2,
    "entropy_coef": 0.01,
}
"""PPO as Yu et al. 2022 recommend it: sec. 5, and the tables of their appendix."""
MAPPO = {"algorithm": {**_YU, "critic": "central"}}
"""Yu et al. 2022, sec. 5, with a squared error for the values."""
IPPO = {"algorithm": {**_YU, "critic": "separate"}}
"""de Witt et al. 2020, with the settings of MAPPO: the IPPO of Yu et al. 2022."""
