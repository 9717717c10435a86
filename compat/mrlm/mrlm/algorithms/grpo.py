"""GRPO: group relative policy optimisation (Shao et al. 2024)."""

from typing import ClassVar

from mrlm.algorithms.trainer import PolicyTrainer


class GRPOTrainer(PolicyTrainer):
    """GRPO over groups of episodes from one start, by `config.training` and `config.grpo`.

    An environment of yours has to draw from its `rng`, or a group's starts would differ.
    """

    algorithm: ClassVar[str] = "grpo"
