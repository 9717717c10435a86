"""SFT: imitation of answers, and prediction of the environment's messages."""

from typing import ClassVar

from mrlm.algorithms.trainer import PolicyTrainer


class SFTTrainer(PolicyTrainer):
    """Trainer with supervised learning from `config.sft.data`, or else from the policy's episodes.

    `config.sft` selects the tokens to learn. An iteration is a pass over the same episodes.
    """

    algorithm: ClassVar[str] = "sft"
