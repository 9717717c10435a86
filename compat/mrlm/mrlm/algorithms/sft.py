"""SFT: imitation of answers, and prediction of what the environment tells next."""

from typing import ClassVar

from mrlm.algorithms.trainer import PolicyTrainer


class SFTTrainer(PolicyTrainer):
    """Supervised learning from games that the policy plays when training begins.

    `config.sft` says what is learned of them; an iteration is a pass over them.
    """

    algorithm: ClassVar[str] = "sft"
