"""SFT: imitation of answers, and prediction of the environment's messages."""

from typing import ClassVar

from mrlm.algorithms.trainer import PolicyTrainer


class SFTTrainer(PolicyTrainer):
    """Trainer with supervised learning from episodes that the policy plays before training.

    `config.sft` selects the tokens to learn. An iteration is a pass over the episodes.
    """

    algorithm: ClassVar[str] = "sft"
