"""GRPO: group relative policy optimisation (Shao et al. 2024)."""

from typing import Any, ClassVar

from mrlm.algorithms.trainer import PolicyTrainer
from mrlm.core.environment import SimulatedEnvironment
from srl_train.errors import TrainingError


class GRPOTrainer(PolicyTrainer):
    """GRPO over groups of episodes from one start, by `config.training` and `config.grpo`.

    An environment of yours has to draw from its `rng`, so that a group has one start.
    """

    algorithm: ClassVar[str] = "grpo"

    def train(self, num_iterations: int | None = None) -> dict[str, Any]:
        """See PolicyTrainer.train; raises TrainingError for an environment whose seed does not
        decide what it asks."""
        for environment in self.eval_envs:
            _refuse_own_randomness(environment)
        return super().train(num_iterations)


def _refuse_own_randomness(environment: SimulatedEnvironment) -> None:
    """Ask twice from one seed, a few times: chance may have it that both ask the same."""
    with environment.copy() as one, environment.copy() as other:
        for seed in range(4):
            one.seed(seed)
            other.seed(seed)
            if one.reset().messages != other.reset().messages:
                raise TrainingError(
                    f"{type(environment).__name__}.reset() asks differently from one and the same "
                    "seed, and GRPO compares answers to one start: draw from self.rng"
                )
