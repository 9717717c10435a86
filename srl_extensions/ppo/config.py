"""Section `algorithm` of models that learn by PPO, and the presets of published settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from srl_train.config.learning.learners import Count, NotNegative, Positive, SurrogateConfig


class PpoConfig(SurrogateConfig):
    """Proximal policy optimization (Schulman et al. 2017): advantages from a critic."""

    LEARNER: ClassVar = "srl_extensions.ppo.trl_ppo:PpoLearner"
    OWN_ADVANTAGES: ClassVar = True

    name: Literal["ppo"] = "ppo"
    """Learning algorithm (docs/training/ppo.md)."""
    minibatches: Count = 2
    """Number of parts of an update's samples, with one optimizer step each; a divisor of
    rollout.group_size."""
    num_iterations: Count = 2
    """Number of passes over the samples of an update (PPO's epochs)."""
    critic: Literal["shared", "separate", "central"] = "separate"
    """Critic: a value head on the policy's backbone, on a copy of it, or a network on the joint
    state of the environment (MAPPO)."""
    gae_lambda: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Lambda of generalized advantage estimation, per answer: 0 uses the critic's next value, 1
    only rewards."""
    normalize_advantages: Literal["group", "update", "none"] = "group"
    """Samples over which advantages get mean 0: the same step of the same group, or the update.
    Both divide by the standard deviation over the update."""
    value_coefficient: NotNegative = 0.05
    """Weight of the value loss."""
    value_normalisation: Literal["none", "running"] = "none"
    """Targets of the critic: returns, or returns normalized by the running mean and standard
    deviation of all updates (MAPPO)."""
    value_clip: Positive | None = None
    """Largest change of a value in an update that reduces its loss, in units of the critic's
    targets; null is no limit."""
    value_learning_rate: Positive | None = None
    """Learning rate of the critic's parameters; null is learning_rate."""
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
