"""Section `algorithm` of models that train with PPO, and presets of published settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from srl_train.config.learning.learners import Count, NotNegative, Positive, SurrogateConfig


class PpoConfig(SurrogateConfig):
    """Proximal policy optimization (Schulman et al. 2017), with a critic (docs/training/ppo.md)."""

    LEARNER: ClassVar = "srl_extensions.ppo.trl_ppo:PpoLearner"
    OWN_ADVANTAGES: ClassVar = True

    name: Literal["ppo"] = "ppo"
    """Algorithm of the models in training."""
    minibatches: Count = 2
    """Number of optimizer steps per pass over an update's samples, a divisor of
    rollout.group_size."""
    num_iterations: Count = 2
    """Number of passes over each update's samples (epochs in PPO)."""
    critic: Literal["shared", "separate", "central"] = "separate"
    """Critic: a value head on the policy's backbone (`shared`), on a separate backbone
    (`separate`), or a network that reads the joint state (`central`, MAPPO)."""
    gae_lambda: Annotated[float, Field(ge=0, le=1)] = 1.0
    """Lambda of generalized advantage estimation (0: one-step temporal difference, 1: return minus
    value)."""
    normalize_advantages: Literal["group", "update", "none"] = "group"
    """Normalization of advantages: subtract the mean of the same answer number in a group, or of
    the update; divide by the update's deviation. `none` disables both."""
    value_coefficient: NotNegative = 0.05
    """Weight of the value loss."""
    value_normalization: Literal["none", "running"] = "none"
    """Targets of the critic: returns (`none`), or returns normalized by mean and standard
    deviation with decaying weights (`running`, MAPPO)."""
    value_clip: Positive | None = None
    """Maximum change of a value per update before its loss is clipped, in units of return, or of
    standard deviations with value_normalization; null disables clipping."""
    value_learning_rate: Positive | None = None
    """Learning rate of the critic's parameters; null uses the policy's."""
    entropy_coef: NotNegative = 0.0
    """Weight of the entropy bonus, the mean entropy per answer token in nats."""

    @property
    def reads_states(self) -> bool:
        """True if the critic reads the environment's joint state: `critic` is "central"."""
        return self.critic == "central"

    @property
    def own_units(self) -> bool:
        """True if the critic predicts normalized returns: `value_normalization` is "running"."""
        return self.value_normalization == "running"


SECTION = PpoConfig

_YU: Mapping[str, Any] = {
    "name": "ppo",
    "value_normalization": "running",
    "normalize_advantages": "update",
    "gae_lambda": 0.95,
    "num_iterations": 5,
    "minibatches": 1,
    "value_coefficient": 1.0,
    "value_clip": 0.2,
    "entropy_coef": 0.01,
}
"""PPO settings recommended by Yu et al. 2022, sec. 5 and the tables of the appendix."""
MAPPO = {"algorithm": {**_YU, "critic": "central"}}
"""Preset `mappo` (Yu et al. 2022, sec. 5), with a squared value loss."""
IPPO = {"algorithm": {**_YU, "critic": "separate"}}
"""Preset `ippo` (de Witt et al. 2020), with the settings of MAPPO as in Yu et al. 2022."""
