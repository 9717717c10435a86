"""GRPO: group relative policy optimization (Shao et al. 2024)."""

from __future__ import annotations

from typing import Any, ClassVar

from mrlm.algorithms.trainer import PolicyTrainer
from mrlm.core.environment import SimulatedEnvironment
from srl_train.errors import TrainingError


class GRPOTrainer(PolicyTrainer):
    """Trainer with GRPO over groups of episodes from the same start, by `config.grpo`.

    Own environments must draw from `self.rng`, so that the episodes of a group start equally.
    """

    algorithm: ClassVar[str] = "grpo"

    def train(self, num_iterations: int | None = None) -> dict[str, Any]:
        """Train the policy; raises TrainingError if seeds do not determine first observations."""
        for environment in self.eval_envs:
            _check_seeding(environment)
        return super().train(num_iterations)


def _check_seeding(environment: SimulatedEnvironment) -> None:
    """Compare first observations from four seeds; those of one seed may be equal by chance."""
    with environment.copy() as one, environment.copy() as other:
        for seed in range(4):
            one.seed(seed)
            other.seed(seed)
            if one.reset().messages != other.reset().messages:
                raise TrainingError(
                    f"{type(environment).__name__}.reset() returns different observations for "
                    "equal seeds, and GRPO compares answers to the same one: draw from self.rng"
                )
