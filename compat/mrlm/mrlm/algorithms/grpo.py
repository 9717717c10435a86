"""GRPO: group relative policy optimization (Shao et al. 2024)."""

from typing import ClassVar

from mrlm.algorithms.trainer import PolicyTrainer


class GRPOTrainer(PolicyTrainer):
    """Trainer with GRPO over groups of episodes from the same start; see PolicyTrainer.

    Custom environments must draw from `self.rng`, so that the episodes of a group start equally.
    """

    algorithm: ClassVar[str] = "grpo"
