"""PPO: the clipped surrogate with a critic (Schulman et al. 2017)."""

from typing import ClassVar

from mrlm.algorithms.trainer import PolicyTrainer


class PPOTrainer(PolicyTrainer):
    """Trainer with PPO, by `config.ppo`; see PolicyTrainer."""

    algorithm: ClassVar[str] = "ppo"
